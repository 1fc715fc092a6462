"""From folders to a report in one call, and the report as one JSON document."""

from collections.abc import Sequence
from pathlib import Path

from ..console import Console
from .collect import collect
from .model import Report
from .tables import tabulate
from .text import rows


def build(
    paths: Sequence[Path],
    baseline: str | None,
    console: Console,
    suites: Sequence[str] | None = None,
    strictness: str = "lenient",
) -> Report:
    """Collect the results below the paths and tabulate them; samples without a verdict are graded first.

    suites: the columns in order (None: all that are there). strictness: how missing verdicts are graded.
    What is odd about the results is told through `console` and kept as the report's first notes. Raises
    GrailError.
    """
    told = []

    def warn(text: str) -> None:
        told.append(text)
        console.warn(text)

    def grade(pairs: list[tuple[object, str]]) -> list:
        from ..evaluation.grade import Grader

        with (
            Grader(workers=2, strictness=strictness) as grader,
            console.progress("grading", total=len(pairs), unit="samples") as bar,
        ):
            verdicts = grader.grade(pairs, bar.advance)
            bar.advance(len(pairs) - bar.done)  # equal answers are judged once
            return verdicts

    report = tabulate(collect(paths, grade, warn), baseline, suites)
    return report.noted(told)


def document(report: Report, files: Sequence[Path], check: dict | None) -> dict:
    """The report for `--json`: models, suites, a row a model and suite (shares 0..1), notes, files."""
    models = [
        {
            "label": model.label,
            "folder": model.folder,
            "run": model.run or None,
            "step": model.step,
            "suites": list(model.suites),
            "marked": sorted(model.marked),
        }
        for model in report.models
    ]
    made = {
        "models": models,
        "suites": list(report.suites),
        "baseline": report.baseline,
        "scores": rows(report),
        "notes": list(report.notes),
        "files": [str(file.resolve()) for file in files],
    }
    return made if check is None else {**made, "check": check}
