"""The preset of an evaluation that names none: the one that the checkpoints were trained with."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import GrailError
from ..models import TINY, is_local

if TYPE_CHECKING:
    from ..presets.load import Resolved

TINY_PRESET = "tiny-grpo"


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
