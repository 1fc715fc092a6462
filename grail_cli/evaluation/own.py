"""What a checkpoint brings to its evaluation: the preset of its run when none is named, and always its prompts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import GrailError
from ..models import TINY, is_local
from ..prompts import STAMP, PromptSettings, read_stamp

if TYPE_CHECKING:
    from ..presets.load import Resolved

TINY_PRESET = "tiny-grpo"
PROMPT_KEYS = ("data.prompt_suffix", "data.system_prompt", "data.thinking", "data.chat_template_kwargs",
               "model.chat_template")


def preset_of(model: str) -> str | None:
    """The `preset.yaml` of the run that holds a checkpoint, the tiny model's preset for `tiny`, else None."""
    if model == TINY:
        return TINY_PRESET
    file = Path(model).resolve().parent / "preset.yaml"
    return str(file) if is_local(model) and file.is_file() else None


def own_settings(models: Sequence[str], resolve: Callable[[str | None], "Resolved"]) -> tuple["Resolved", str | None]:
    """(settings, preset that they come from or None) for all models of one call.

    resolve: loads a preset with the caller's overrides; given None, the defaults. A model without a run, such as
    one of the Hub, is evaluated like the others. Raises GrailError when the runs ask for different evaluations.
    """
    found = {name: resolve(name) for name in dict.fromkeys(map(preset_of, models)) if name}
    if not found:
        return resolve(None), None
    first, *others = found
    asked = found[first].preset.eval.model_dump()
    for name in others:
        differ = [key for key, value in found[name].preset.eval.model_dump().items() if value != asked[key]]
        if differ:
            raise GrailError(
                f"{first} and {name} differ in {', '.join(f'eval.{key}' for key in differ)}.",
                where="--model",
                kind="settings_differ",
                hint=f"--preset {first} evaluates all alike, or set these with --set.",
            )
    return found[first], first


def check_prompts(folder: str, resolved: "Resolved") -> None:
    """Raise GrailError when a prompt setting was typed that the stamp of the checkpoint would silently overrule."""
    typed = [key for key in PROMPT_KEYS if resolved.origins[key].startswith(("--", "$"))]
    stamp = read_stamp(folder)
    if typed and stamp is not None and stamp.settings != PromptSettings.of(resolved.preset):
        raise GrailError(
            f"{', '.join(typed)} would have no effect: {folder} is asked as its {STAMP} says.",
            where="--set",
            kind="prompt_mismatch",
            hint=f"leave it out, or evaluate a copy of the folder without {STAMP}.",
        )
