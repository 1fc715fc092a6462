"""The report as a workbook: models x suites under a two-row header, tokens, intervals, differences, settings, problems.

The first two sheets keep the reference's layout: one row a model, two columns (pass@k, acc@n, in per cent) a suite, the
averages at the end; and the tokens. A cell holds the bare number in full precision: significance marks are number
formats, so that a program that reads the sheet gets numbers only.
"""

import io
import re

from openpyxl import Workbook
from openpyxl.cell.cell import Cell
from openpyxl.comments import Comment
from openpyxl.formatting.rule import ColorScaleRule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.worksheet import Worksheet

from .model import Problem, Report, title_of
from .text import caption

BOLD = Font(name="Calibri", size=11, bold=True)
HEAD_FILL, DIFFERS = PatternFill("solid", fgColor="E8ECF0"), PatternFill("solid", fgColor="FFF0B3")
LINE, EDGE = Border(bottom=Side(style="thin", color="8A949E")), Border(left=Side(style="thin", color="8A949E"))
CENTRE, RIGHT, TOP = Alignment(horizontal="center"), Alignment(horizontal="right"), Alignment(vertical="top")
WRAP = Alignment(vertical="top", wrap_text=True)
INDENT = Alignment(horizontal="left", vertical="top", indent=1)
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # what XML cannot hold
LONGEST_CELL = 32_767  # characters; Excel's limit
POINTS = "+0.0;-0.0;0.0"
SIGNS = {"correct": "\u2713", "wrong": "\u2717", "no_box": "\u2205"}


def workbook_bytes(report: Report) -> bytes:
    """The whole workbook as the bytes of an .xlsx file."""
    book = Workbook()
    _results(book.active, report)
    _tokens(book.create_sheet("Tokens"), report)
    _intervals(book.create_sheet("Intervals"), report)
    if report.differences:
        _differences(book.create_sheet("Differences"), report)
    _notes(book.create_sheet("Notes"), report)
    _settings(book.create_sheet("Settings"), report)
    for suite in report.suites:
        _problems(book.create_sheet(_sheet_name(suite, book.sheetnames)), report, suite)
    for sheet in book:
        sheet.page_setup.orientation = "landscape"
        sheet.page_setup.fitToHeight = 0  # as many pages down as it takes, one across
        sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def put(sheet: Worksheet, row: int, column: int, value: object, *, style: str = "", font: Font | None = None) -> Cell:
    """Write one cell; text stays text (never a formula), without characters that a workbook cannot hold."""
    cell = sheet.cell(row, column)
    if isinstance(value, str):
        text = UNFIT.sub("\ufffd", value)
        cell.value = text if len(text) <= LONGEST_CELL else text[:LONGEST_CELL - 10] + " ... (cut)"
        cell.data_type = "s"
    else:
        cell.value = value
    if style:
        cell.number_format = style
    if font:
        cell.font = font
    return cell


def _head(sheet: Worksheet, row: int, names: list[str], *, start: int = 1, texts: tuple[str, ...] = ()) -> None:
    """A row of headings: over texts (those named) to the left, over numbers to the right."""
    for column, name in enumerate(names, start):
        cell = put(sheet, row, column, name, font=BOLD)
        cell.fill, cell.border = HEAD_FILL, LINE
        if name not in texts:
            cell.alignment = RIGHT


def _group(sheet: Worksheet, column: int, name: str, width: int) -> None:
    """One merged heading in row 1 over `width` columns."""
    _head(sheet, 1, [name] + [""] * (width - 1), start=column)
    for offset in range(1, width):
        sheet.cell(1, column + offset).value = None
    sheet.cell(1, column).alignment = CENTRE
    if width > 1:
        sheet.merge_cells(start_row=1, end_row=1, start_column=column, end_column=column + width - 1)


def _widths(sheet: Worksheet, *widths: float) -> None:
    for column, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(column)].width = width


def _label_width(report: Report) -> float:
    return min(60, max(12, *(len(label) + 2 for label in report.labels)))


def _results(sheet: Worksheet, report: Report) -> None:
    sheet.title = "Results"
    _head(sheet, 1, ["Model"], texts=("Model",))
    _head(sheet, 2, [""])
    sheet["A2"].value = None
    sheet.merge_cells("A1:A2")
    sheet["A1"].alignment = Alignment(vertical="center")
    sheet["A1"].comment = Comment(caption(report), "grail", width=360, height=90)
    for i, suite in enumerate(report.columns):
        column = 2 + 2 * i
        _group(sheet, column, title_of(suite), 2)
        _head(sheet, 2, [report.pass_name(suite), report.acc_name(suite)], start=column)
        for row, label in enumerate(report.labels, 3):
            score, mark = report.score(label, suite), report.mark(label, suite)
            if score is None:
                continue
            for offset, (what, behind) in enumerate((("passed", ""), ("acc", mark))):
                estimate = getattr(score, what)
                if estimate is not None:
                    best = label in report.best(suite, what)
                    put(sheet, row, column + offset, 100 * estimate.value, style=f'0.0"{behind}"' if behind else "0.0",
                        font=BOLD if best else None)
        for row in range(1, len(report.labels) + 3):
            sheet.cell(row, column).border = Border(left=EDGE.left, bottom=LINE.bottom if row < 3 else None)
    for row, label in enumerate(report.labels, 3):
        put(sheet, row, 1, label)
    _widths(sheet, _label_width(report), *[10.5] * (2 * len(report.columns)))
    sheet.freeze_panes = "B3"


def _tokens(sheet: Worksheet, report: Report) -> None:
    _head(sheet, 1, ["Model", *(title_of(suite) for suite in report.columns)], texts=("Model",))
    for row, label in enumerate(report.labels, 2):
        put(sheet, row, 1, label)
        for column, suite in enumerate(report.columns, 2):
            score = report.score(label, suite)
            if score and score.tokens is not None:
                put(sheet, row, column, score.tokens, style="#,##0.0")
    _widths(sheet, _label_width(report), *(max(12, len(title_of(suite)) + 2) for suite in report.columns))
    sheet.freeze_panes = "B2"


def _intervals(sheet: Worksheet, report: Report) -> None:
    names = ["Model", "Suite", "problems", "samples", "acc", "low", "high", "k", "pass@k", "low", "high", "majority",
             "tokens", "cut off", "no box", "unscored"]
    _head(sheet, 1, names, texts=("Model", "Suite"))
    row = 2
    for label in report.labels:
        for suite in report.columns:
            score = report.score(label, suite)
            if score is None:
                continue
            shares = [part for estimate in (score.acc, score.passed) for part in (estimate or (None,) * 3)[:3]]
            values = [label, title_of(suite), score.problems, score.samples, *shares[:3], score.k or None, *shares[3:], score.majority,
                      score.tokens, score.truncated, score.no_box, score.unscored]
            for column, value in enumerate(values, 1):
                share = names[column - 1] in ("acc", "low", "high", "pass@k", "majority")
                if value is not None:
                    put(sheet, row, column, 100 * value if share else value, style="0.0" if share or column == 13 else "")
            row += 1
    _widths(sheet, _label_width(report), 18, *[10] * 14)
    sheet.freeze_panes = "C2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(names))}{row - 1}"


def _differences(sheet: Worksheet, report: Report) -> None:
    _head(sheet, 1, ["Model", "Suite", f"acc minus {report.baseline}", "low", "high", "p", "p (Holm)", "problems",
                     "detectable", "verdict"], texts=("Model", "Suite", "verdict"))
    styles = {3: POINTS, 4: POINTS, 5: POINTS, 6: "0.0000", 7: "0.0000", 9: "0.0"}
    for row, ((label, suite), d) in enumerate(report.differences.items(), 2):
        points = [None if x is None else 100 * x for x in (*d.estimate[:3], d.detectable)]
        for column, value in enumerate([label, title_of(suite), *points[:3], d.p, d.p_adjusted, d.common,
                                        points[3], f"{d.words} {d.stars}".strip()], 1):
            if value is not None:
                cell = put(sheet, row, column, value, style=styles.get(column, ""),
                           font=BOLD if d.stars and column == 10 else None)
                if column == 10:
                    cell.alignment = INDENT
    _widths(sheet, _label_width(report), 18, max(16, len(report.baseline or "") + 12), 9, 9, 9, 9, 10, 12, 12)
    sheet.freeze_panes = "C2"


def _notes(sheet: Worksheet, report: Report) -> None:
    lines = [caption(report), "In bold: the best of a column. Intervals come from the spread over problems; samples of one "
             "problem are no independent evidence."]
    if report.differences:
        lines.append("Differences are paired by problem on the problems that both models have; 'detectable' is the true "
                     "difference in points that a suite of this size would show four times in five.")
    _head(sheet, 1, ["Notes"], texts=("Notes",))
    for row, line in enumerate([*lines, *report.notes], 2):
        put(sheet, row, 1, line).alignment = WRAP
        sheet.row_dimensions[row].height = 15.0 * (1 + len(line) // 105)  # not every program fits rows to wrapped text
    _widths(sheet, 120)


def _settings(sheet: Worksheet, report: Report) -> None:
    """Settings and provenance: a row a key, a column a model; rows whose values differ are coloured."""
    keys = dict.fromkeys(key for model in report.models for key, value in model.settings.items() if value is not None)
    _head(sheet, 1, ["Setting", *report.labels], texts=("Setting", *report.labels))
    put(sheet, 2, 1, "folder")
    for column, model in enumerate(report.models, 2):
        put(sheet, 2, column, model.folder).alignment = TOP
    for row, key in enumerate(keys, 3):
        put(sheet, row, 1, key)
        values = [model.settings.get(key) for model in report.models]
        for column, value in enumerate(values, 2):
            cell = put(sheet, row, column, value if isinstance(value, (int, float, type(None))) else str(value))
            cell.alignment = Alignment(horizontal="left", vertical="top")
            if any(other != values[0] for other in values):
                cell.fill = DIFFERS
    _widths(sheet, 34, *[max(24, len(label) + 2) for label in report.labels])
    sheet.freeze_panes = "B2"


def _problems(sheet: Worksheet, report: Report, suite: str) -> None:
    """A suite's sheet: a row a problem, and for each model the share of right samples, its answers and its tokens."""
    models = [model for model in report.models if suite in model.suites]
    problems: dict[str, Problem] = {}
    for model in models:
        for problem in model.suites[suite]:
            problems.setdefault(problem.id, problem)
    _group(sheet, 1, "Problem", 3)
    _head(sheet, 2, ["id", "problem", "gold"], texts=("id", "problem", "gold"))
    place = {}
    for row, problem in enumerate(problems.values(), 3):
        place[problem.id] = row
        for column, text in enumerate((problem.id, problem.question, problem.gold), 1):
            put(sheet, row, column, text).alignment = TOP
    last = len(problems) + 2
    for i, model in enumerate(models):
        column = 4 + 3 * i
        _group(sheet, column, model.label, 3)
        _head(sheet, 2, ["right", "answers", "tokens"], start=column, texts=("answers",))
        for problem in model.suites[suite]:
            row, scored = place[problem.id], [s for s in problem.samples if s.verdict in ("correct", "wrong", "no_box")]
            if scored:
                put(sheet, row, column, sum(s.verdict == "correct" for s in scored) / len(scored), style="0%")
            answers = "  |  ".join(f"{SIGNS.get(s.verdict, '?')} {s.pred if s.pred is not None else ''}".rstrip()
                                   for s in problem.samples)
            put(sheet, row, column + 1, answers).alignment = INDENT
            tokens = [s.tokens for s in problem.samples if s.tokens is not None]
            if tokens:
                put(sheet, row, column + 2, sum(tokens) / len(tokens), style="#,##0")
        letter = get_column_letter(column)
        sheet.conditional_formatting.add(f"{letter}3:{letter}{last}", ColorScaleRule(
            start_type="num", start_value=0, start_color="F6B26B", mid_type="num", mid_value=0.5, mid_color="FFFFFF",
            end_type="num", end_value=1, end_color="6FA8DC"))  # orange to blue: told apart by every eye
    _widths(sheet, 14, 60, 20, *[8, 36, 9] * len(models))
    sheet.freeze_panes = "B3"
    sheet.auto_filter.ref = f"A2:{get_column_letter(3 + 3 * len(models))}{last}"


def _sheet_name(suite: str, taken: list[str]) -> str:
    """A sheet name that Excel allows: 31 characters, none of []:*?/\\, told apart from those taken."""
    base = re.sub(r"[\[\]:*?/\\]", "-", suite).strip("'")[:31] or "suite"
    name, number = base, 2
    while name.lower() in {other.lower() for other in taken}:
        name, number = f"{base[:31 - len(str(number)) - 1].rstrip()}-{number}", number + 1
    return name
