"""Presets: typed experiment files that are checked whole before anything is loaded."""

from .load import Resolved, load_preset
from .locate import list_presets, preset_dir, preset_names
from .schema import Preset

__all__ = ["Preset", "Resolved", "list_presets", "load_preset", "preset_dir", "preset_names"]
