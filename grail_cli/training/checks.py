"""Everything that can be wrong with a run, found before a weight is loaded, all of it at once.

`check_run` reads the preset, the data and the tokenizer; it imports no torch unless a tokenizer needs it.
"""

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import GrailError
from ..models import check_folder, context_length, is_local, resolve_model
from ..presets.load import Resolved
from .batches import batch_faults, batch_plan
from .config import processes
from .data import Problems, load_problems


@dataclass
class Report:
    """What the checks found: faults stop the run, warnings are said; problems is their number, facts are for --json."""

    faults: list[GrailError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: int | None = None
    facts: dict = field(default_factory=dict)


def check_run(resolved: Resolved, folder: Path) -> Report:
    """Check a run of this preset into this folder."""
    report, preset = Report(), resolved.preset
    config = _guarded(report, lambda: _model(preset))
    problems = _guarded(report, lambda: load_problems(preset.data))
    report.problems = len(problems) if problems else None
    report.faults += batch_faults(batch_plan(preset.train, processes(preset), report.problems))
    return report


def _guarded(report: Report, look):
    """Run one check, and keep its fault instead of stopping at it."""
    try:
        return look()
    except GrailError as fault:
        report.faults += getattr(fault, "faults", [fault])
        return None


def _model(preset) -> dict:
    source = resolve_model(preset.model.path)
    return check_folder(source) if is_local(source) else {}
