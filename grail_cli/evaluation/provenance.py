"""What settles a result: the settings that must be equal, the model's hash, where everything came from."""

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..files import sha256_file, sha256_text
from ..models import is_local, label
from ..prompts import PromptSettings
from .backend import Sampling
from .benchmarks import fingerprint
from .grade import GRADER_VERSION

if TYPE_CHECKING:
    from .run import Job


def settings_of(model: str, job: "Job", prompts: PromptSettings) -> dict:
    """What must be equal for samples to lie in one folder; n, the suites and the limit may grow."""
    section = job.preset.eval
    return {
        "model": label(model) if is_local(model) else model,
        "model_hash": model_hash(model),
        "revision": job.preset.model.revision,
        "sampling": sampling_of(section).__dict__,
        "seed": section.seed,
        "strictness": section.strictness,
        "prompt_suffix": prompts.suffix,
        "system_prompt": prompts.system,
        "thinking": prompts.thinking,
        "chat_template_kwargs": prompts.chat_template_kwargs,
        "chat_template_sha": sha256_text(prompts.chat_template) if prompts.chat_template else None,
        "grader": GRADER_VERSION,
    }


def sampling_of(section) -> Sampling:
    """The sampling parameters of a preset's section `eval`."""
    return Sampling(section.temperature, section.top_p, section.top_k, section.min_p, section.max_new_tokens)


def model_hash(model: str) -> str | None:
    """A hash of a local checkpoint: its small files whole, its weights by name, size and first and last megabyte."""
    if not is_local(model):
        return None
    parts = []
    for path in sorted(Path(model).iterdir()):
        if path.suffix in (".json", ".jinja") and path.name != "trainer_state.json" and path.is_file():
            parts.append(f"{path.name} {sha256_file(path)}")
        elif path.suffix in (".safetensors", ".bin") and path.name.startswith(
            ("model", "adapter", "pytorch_model")
        ):
            size = path.stat().st_size
            with open(path, "rb") as file:
                head = file.read(1 << 20)
                file.seek(max(0, size - (1 << 20)))
                parts.append(f"{path.name} {size} {sha256_text((head + file.read()).hex())}")
    return sha256_text("\n".join(parts))[:16]


def provenance(name: str, model: str, job: "Job", prompts_from: str) -> dict:
    """What a reader of the results has to know beside the settings."""
    return {
        "label": name,
        "model_path": str(Path(model).resolve()) if is_local(model) else model,
        "n": job.preset.eval.n,
        "limit": job.preset.eval.limit,
        "prompts_from": prompts_from,
        "suites_hash": {suite: fingerprint(problems) for suite, problems in job.suites.items()},
        "versions": {
            "grail": __version__,
            "python": platform.python_version(),
            **{
                package: _version(package)
                for package in ("torch", "transformers", "math-verify", "openai", "vllm")
            },
        },
        "command": job.command,
        "host": platform.node(),
        "started": stamp_time(time.time()),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def stamp_time(seconds: float) -> str:
    """A time as text, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
