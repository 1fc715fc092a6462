"""Open the sampler that a preset names: this process, a running server, or a vLLM server of our own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..console import Console
from ..errors import GrailError
from ..models import context_length
from ..prompts import PromptSettings, render
from .backend import Backend
from .benchmarks import Problem
from .provenance import sampling_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..presets.schema import Preset

Opened = AbstractContextManager[tuple[Backend, "PreTrainedTokenizerBase | None"]]


def opener(
    preset: "Preset", suites: dict[str, list[Problem]], console: Console
) -> Callable[[str, PromptSettings], Opened]:
    """open(model, prompts) for `evaluate`: a context manager of (backend, tokenizer or None).

    Raises GrailError for a backend that does not exist.
    """
    name = preset.eval.backend
    if name.startswith(("http://", "https://")):
        return lambda model, prompts: over_http(model, prompts, preset, name)
    if name not in ("auto", "transformers", "vllm"):
        raise GrailError(
            f"{name!r} is unknown; allowed: auto, transformers, vllm, or a URL.", where="eval.backend"
        )
    if chosen(name) == "vllm":
        return lambda model, prompts: managed(model, prompts, preset, suites, console)
    return lambda model, prompts: in_process(model, prompts, preset, suites)


def chosen(backend: str) -> str:
    """`transformers`, `vllm` or `server`: what a preset's backend means on this machine."""
    import importlib.util
    from shutil import which

    if backend.startswith(("http://", "https://")):
        return "server"
    if backend == "auto":
        return "vllm" if importlib.util.find_spec("vllm") and which("nvidia-smi") else "transformers"
    return backend


def _tokenizer(model: str, prompts: PromptSettings, preset: "Preset") -> "PreTrainedTokenizerBase":
    from ..models import load_tokenizer

    return load_tokenizer(
        model,
        revision=preset.model.revision,
        trust_remote_code=preset.model.trust_remote_code,
        chat_template=prompts.chat_template,
    )


def longest_prompt(
    tokenizer: "PreTrainedTokenizerBase", prompts: PromptSettings, suites: dict[str, list[Problem]]
) -> tuple[int, str]:
    """(tokens, what to call it) of the longest prompt."""
    return max(
        (len(render(tokenizer, problem.question, prompts).ids), f"problem {problem.id} of {suite}")
        for suite, problems in suites.items()
        for problem in problems
    )


def check_room(model: str, max_new_tokens: int, longest: int, name: str) -> None:
    """Raise GrailError when the model's context cannot hold its longest prompt and a whole completion.

    A Hub model whose config.json is not in the cache is not checked.
    """
    from ..serving.checks import config_of

    context = context_length(config_of(model))
    if context is None or longest + max_new_tokens <= context:
        return
    room = context - longest
    raise GrailError(
        f"the model's context is {context} tokens; the longest prompt takes {longest} ({name}) and "
        f"eval.max_new_tokens={max_new_tokens} does not fit behind it.",
        where="eval.max_new_tokens",
        kind="context",
        hint=f"--set eval.max_new_tokens={room}" if room > 0 else "choose a model with a longer context.",
    )


@contextmanager
def in_process(
    model: str, prompts: PromptSettings, preset: "Preset", suites: dict[str, list[Problem]]
) -> Iterator[tuple[Backend, "PreTrainedTokenizerBase"]]:
    """The transformers backend with its model and tokenizer loaded."""
    import transformers

    from ..models import load_model
    from .transformers_backend import TransformersBackend

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = _tokenizer(model, prompts, preset)
    check_room(model, preset.eval.max_new_tokens, *longest_prompt(tokenizer, prompts, suites))
    loaded = load_model(
        model,
        dtype=preset.model.dtype,
        attn_implementation=preset.model.attn_implementation,
        revision=preset.model.revision,
        trust_remote_code=preset.model.trust_remote_code,
    )
    yield TransformersBackend(loaded, tokenizer, sampling_of(preset.eval), preset.eval.batch_size), tokenizer


@contextmanager
def over_http(
    model: str,
    prompts: PromptSettings,
    preset: "Preset",
    url: str,
    *,
    served: str | None = None,
    api_key: str | None = None,
    check_alive: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Backend, "PreTrainedTokenizerBase | None"]]:
    """A running server. vLLM is given our prompt ids; other servers get chat messages and render them
    themselves.

    check_alive: raises RunFailed when the server's owner knows that it has died.
    """
    from .endpoint import find_server
    from .http_backend import HttpBackend

    server = replace(find_server(url, served or model, api_key), check_alive=check_alive)
    tokenizer = _tokenizer(model, prompts, preset) if server.is_vllm else None
    yield (
        HttpBackend(
            server,
            sampling_of(preset.eval),
            concurrency=preset.eval.concurrency,
            timeout_s=preset.eval.timeout_s,
            chat_kwargs={"enable_thinking": prompts.thinking, **prompts.chat_template_kwargs},
        ),
        tokenizer,
    )


@contextmanager
def managed(
    model: str, prompts: PromptSettings, preset: "Preset", suites: dict[str, list[Problem]], console: Console
) -> Iterator[tuple[Backend, "PreTrainedTokenizerBase"]]:
    """A vLLM server of our own: started for this model, shared by its suites, gone afterwards."""
    from .. import serving

    tokenizer = _tokenizer(model, prompts, preset)
    longest, name = longest_prompt(tokenizer, prompts, suites)
    check_room(model, preset.eval.max_new_tokens, longest, name)
    settings = serving.ServeSettings(
        model=model,
        options=preset.serve,
        route="plain",
        need_tokens=longest + preset.eval.max_new_tokens,
        longest=name,
        revision=preset.model.revision,
        trust_remote_code=preset.model.trust_remote_code,
    )
    with serving.start(settings, console) as server:
        with over_http(
            model,
            prompts,
            preset,
            server.base_url,
            served=server.served_name,
            api_key=server.api_key,
            check_alive=server.check_alive,
        ) as (backend, _):
            backend.about |= server.provenance()
            yield backend, tokenizer
