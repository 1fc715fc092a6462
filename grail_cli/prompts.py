"""The one renderer of prompts: training, evaluation, serving and analysis all write a prompt here.

A checkpoint carries its stamp, `grail.json`: the settings, the hash of the chat template and a rendered example. Whoever
uses the checkpoint takes them from there, so that a model is never asked in another way than it was trained.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import GrailError
from .files import read_json, sha256_text, write_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from .presets.schema import Preset

STAMP = "grail.json"
STAMP_VERSION = 1


@dataclass(frozen=True)
class PromptSettings:
    """How a problem becomes a prompt. chat_template: template text that replaces the tokenizer's own, or None."""

    suffix: str = ""
    system: str | None = None
    thinking: bool = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, preset: "Preset") -> "PromptSettings":
        """The settings of a preset, sections `data` and `model`."""
        return cls(suffix=preset.data.prompt_suffix, system=preset.data.system_prompt, thinking=preset.data.thinking,
                   chat_template=read_template(preset.model.chat_template),
                   chat_template_kwargs=dict(preset.data.chat_template_kwargs))


@dataclass(frozen=True)
class Rendered:
    """A prompt as text and as the token ids that the model is given."""

    text: str
    ids: list[int]


@dataclass(frozen=True)
class PromptStamp:
    """What a checkpoint remembers of its prompts; `extra` holds sampling, credit settings and fingerprint of the run."""

    settings: PromptSettings
    template_sha: str
    example_problem: str
    example_text: str
    example_ids: list[int]
    extra: dict[str, Any] = field(default_factory=dict)


def template_path(name: str) -> Path:
    """The file of a chat template given as a path, or by the name of a shipped one (`boxed`)."""
    shipped = Path(__file__).resolve().parent / "templates" / f"{name}.jinja"
    path = shipped if shipped.is_file() else Path(name)
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in shipped.parent.glob("*.jinja")))
        raise GrailError(f"no chat template {name!r}: neither a file nor one of: {known}.", where="model.chat_template",
                         kind="missing_file", hint="give the path of a .jinja file.")
    return path


def read_template(name: str | None) -> str | None:
    """The text of a chat template given as a file, or by the name of a shipped one (`boxed`)."""
    return None if name is None else template_path(name).read_text(encoding="utf-8")


def messages(problem: str | list[dict], settings: PromptSettings) -> list[dict]:
    """The chat turns of a problem: system turn, then the user turn with the suffix added.

    A problem that is a list of messages keeps them; the suffix goes to its last user turn.
    """
    turns = [{"role": "user", "content": problem}] if isinstance(problem, str) else [dict(turn) for turn in problem]
    users = [turn for turn in turns if turn.get("role") == "user"]
    if not users:
        raise GrailError("a problem without a user turn.", where="prompt", kind="bad_data")
    users[-1]["content"] += settings.suffix
    if settings.system is not None and turns[0].get("role") != "system":
        turns.insert(0, {"role": "system", "content": settings.system})
    return turns


def render(tokenizer: "PreTrainedTokenizerBase", problem: str | list[dict], settings: PromptSettings) -> Rendered:
    """The prompt of one problem. Raises GrailError when neither tokenizer nor settings bring a chat template."""
    template = settings.chat_template or tokenizer.chat_template
    if template is None:
        raise GrailError("this model has no chat template.", where="model.chat_template", kind="no_template",
                         hint="--set model.chat_template=boxed, or the path of a .jinja file.")
    text = tokenizer.apply_chat_template(
        messages(problem, settings), chat_template=template, tokenize=False, add_generation_prompt=True,
        enable_thinking=settings.thinking, **settings.chat_template_kwargs)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return Rendered(text, list(ids))


def stamp_of(tokenizer: "PreTrainedTokenizerBase", problem: str | list[dict], settings: PromptSettings,
             **extra: Any) -> PromptStamp:
    """The stamp of a run, with `problem` as the rendered example."""
    example = render(tokenizer, problem, settings)
    shown = problem if isinstance(problem, str) else problem[-1]["content"]
    template = settings.chat_template or tokenizer.chat_template or ""
    return PromptStamp(settings, sha256_text(template), shown, example.text, example.ids, extra)


def save_stamp(folder: str | Path, stamp: PromptStamp) -> None:
    """Write the stamp into a checkpoint folder."""
    write_json(Path(folder) / STAMP, {"version": STAMP_VERSION, **asdict(stamp)})


def read_stamp(folder: str | Path) -> PromptStamp | None:
    """The stamp of a checkpoint, or None for a model that was not made here. Raises GrailError for a torn one."""
    path = Path(folder) / STAMP
    if not path.is_file():
        return None
    raw = read_json(path)
    if not isinstance(raw, dict) or raw.pop("version", None) != STAMP_VERSION:
        raise GrailError(f"not a stamp of version {STAMP_VERSION}.", where=str(path), kind="bad_file",
                         hint="use the grail version that wrote the checkpoint.")
    try:
        return PromptStamp(**{**raw, "settings": PromptSettings(**raw["settings"])})
    except (TypeError, KeyError) as error:
        raise GrailError(f"not a whole stamp ({error}).", where=str(path), kind="bad_file") from None


def check_stamp(stamp: PromptStamp, tokenizer: "PreTrainedTokenizerBase", where: str) -> None:
    """Raise GrailError when the tokenizer at hand renders the stamp's example to other ids than in training."""
    now = render(tokenizer, stamp.example_problem, stamp.settings)
    if now.ids != stamp.example_ids:
        raise GrailError("prompts would differ from those in training: the stored example has "
                         f"{len(stamp.example_ids)} tokens, this tokenizer and template give {len(now.ids)}"
                         f"{'' if len(now.ids) != len(stamp.example_ids) else ' other ones'}.", where=where,
                         kind="prompt_mismatch", hint="use the checkpoint's own tokenizer files.")
