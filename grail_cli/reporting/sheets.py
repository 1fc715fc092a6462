"""The workbook's sheets that explain: notes, settings and provenance, and every problem of a suite."""

from openpyxl.formatting.rule import ColorScaleRule
from openpyxl.styles import Alignment, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from .cells import INDENT, TOP, WRAP, group, head, put, widths
from .model import Problem, Report
from .text import caption

DIFFERS = PatternFill("solid", fgColor="FFF0B3")
SIGNS = {"correct": "\u2713", "wrong": "\u2717", "no_box": "\u2205"}


def notes(sheet: Worksheet, report: Report) -> None:
    lines = [
        caption(report),
        "In bold: the best of a column. Intervals come from the spread over problems; samples of one "
        "problem are no independent evidence.",
    ]
    if report.differences:
        lines.append(
            "Differences are paired by problem on the problems that both models have; 'detectable' is the "
            "true difference in points that a suite of this size would show four times in five."
        )
    head(sheet, 1, ["Notes"], texts=("Notes",))
    for row, line in enumerate([*lines, *report.notes], 2):
        put(sheet, row, 1, line).alignment = WRAP
        lines_needed = 1 + len(line) // 105  # not every program fits rows to wrapped text
        sheet.row_dimensions[row].height = 15.0 * lines_needed
    widths(sheet, 120)


def settings(sheet: Worksheet, report: Report) -> None:
    """Settings and provenance: a row a key, a column a model; rows whose values differ are coloured."""
    keys = dict.fromkeys(
        key for model in report.models for key, value in model.settings.items() if value is not None
    )
    head(sheet, 1, ["Setting", *report.labels], texts=("Setting", *report.labels))
    put(sheet, 2, 1, "folder")
    for column, model in enumerate(report.models, 2):
        put(sheet, 2, column, model.folder).alignment = TOP
    for row, key in enumerate(keys, 3):
        put(sheet, row, 1, key)
        values = [model.settings.get(key) for model in report.models]
        for column, value in enumerate(values, 2):
            cell = put(
                sheet, row, column, value if isinstance(value, (int, float, type(None))) else str(value)
            )
            cell.alignment = Alignment(horizontal="left", vertical="top")
            if len({str(other) for other in values if other is not None}) > 1:
                cell.fill = DIFFERS
    widths(sheet, 34, *[max(24, len(label) + 2) for label in report.labels])
    sheet.freeze_panes = "B2"


def problems(sheet: Worksheet, report: Report, suite: str) -> None:
    """A suite's sheet: a row a problem; for each model its share of right samples, answers and tokens."""
    models = [model for model in report.models if suite in model.suites]
    problems: dict[str, Problem] = {}
    for model in models:
        for problem in model.suites[suite]:
            problems.setdefault(problem.id, problem)
    group(sheet, 1, "Problem", 3)
    head(sheet, 2, ["id", "problem", "gold"], texts=("id", "problem", "gold"))
    place = {}
    for row, problem in enumerate(problems.values(), 3):
        place[problem.id] = row
        for column, text in enumerate((problem.id, problem.question, problem.gold), 1):
            put(sheet, row, column, text).alignment = TOP
    last = len(problems) + 2
    for i, model in enumerate(models):
        column = 4 + 3 * i
        group(sheet, column, model.label, 3)
        head(sheet, 2, ["right", "answers", "tokens"], start=column, texts=("answers",))
        for problem in model.suites[suite]:
            row, scored = (
                place[problem.id],
                [s for s in problem.samples if s.verdict in ("correct", "wrong", "no_box")],
            )
            if scored:
                put(sheet, row, column, sum(s.verdict == "correct" for s in scored) / len(scored), style="0%")
            answers = "  |  ".join(
                f"{SIGNS.get(s.verdict, '?')} {s.pred if s.pred is not None else ''}".rstrip()
                for s in problem.samples
            )
            put(sheet, row, column + 1, answers).alignment = INDENT
            tokens = [s.tokens for s in problem.samples if s.tokens is not None]
            if tokens:
                put(sheet, row, column + 2, sum(tokens) / len(tokens), style="#,##0")
        letter = get_column_letter(column)
        sheet.conditional_formatting.add(
            f"{letter}3:{letter}{last}",
            ColorScaleRule(
                start_type="num",
                start_value=0,
                start_color="F6B26B",
                mid_type="num",
                mid_value=0.5,
                mid_color="FFFFFF",
                end_type="num",
                end_value=1,
                end_color="6FA8DC",
            ),
        )  # orange to blue: told apart by every eye
    widths(sheet, 14, 60, 20, *[8, 36, 9] * len(models))
    sheet.freeze_panes = "B3"
    sheet.auto_filter.ref = f"A2:{get_column_letter(3 + 3 * len(models))}{last}"
