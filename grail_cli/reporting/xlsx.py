"""The report as a workbook: results, tokens, intervals, differences, notes, settings, every problem.

The first two sheets keep the reference's layout: one row a model, two columns (pass@k, acc@n, in per cent) a
suite, the averages at the end; and the tokens. A cell holds the bare number in full precision: significance
marks are number formats, so that a program that reads the sheet gets numbers only.
"""

import io

from openpyxl import Workbook
from openpyxl.comments import Comment
from openpyxl.styles import Alignment, Border
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.worksheet import Worksheet

from .cells import BOLD, INDENT, SIDE, group, head, label_width, put, sheet_name, widths
from .model import Report, title_of
from .sheets import notes, problems, settings
from .text import caption

POINTS = "+0.0;-0.0;0.0"


def workbook_bytes(report: Report) -> bytes:
    """The whole workbook as the bytes of an .xlsx file."""
    book = Workbook()
    _results(book.active, report)
    _tokens(book.create_sheet("Tokens"), report)
    _intervals(book.create_sheet("Intervals"), report)
    if report.differences:
        _differences(book.create_sheet("Differences"), report)
    notes(book.create_sheet("Notes"), report)
    settings(book.create_sheet("Settings"), report)
    for suite in report.suites:
        problems(book.create_sheet(sheet_name(suite, book.sheetnames)), report, suite)
    for sheet in book:
        sheet.page_setup.orientation = "landscape"
        sheet.page_setup.fitToHeight = 0  # as many pages down as it takes, one across
        sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _results(sheet: Worksheet, report: Report) -> None:
    sheet.title = "Results"
    head(sheet, 1, ["Model"], texts=("Model",))
    head(sheet, 2, [""])
    sheet["A2"].value = None
    sheet.merge_cells("A1:A2")
    sheet["A1"].alignment = Alignment(vertical="center")
    sheet["A1"].comment = Comment(caption(report), "grail", width=360, height=90)
    for i, suite in enumerate(report.columns):
        column = 2 + 2 * i
        group(sheet, column, title_of(suite), 2)
        head(sheet, 2, [report.pass_name(suite), report.acc_name(suite)], start=column)
        for row, label in enumerate(report.labels, 3):
            score, mark = report.score(label, suite), report.mark(label, suite)
            if score is None:
                continue
            for offset, (what, behind) in enumerate((("passed", ""), ("acc", mark))):
                estimate = getattr(score, what)
                if estimate is not None:
                    best = label in report.best(suite, what)
                    put(
                        sheet,
                        row,
                        column + offset,
                        100 * estimate.value,
                        style=f'0.0"{behind}"' if behind else "0.0",
                        font=BOLD if best else None,
                    )
        for row in range(1, len(report.labels) + 3):
            sheet.cell(row, column).border = Border(left=SIDE, bottom=SIDE if row < 3 else None)
    for row, label in enumerate(report.labels, 3):
        put(sheet, row, 1, label)
    widths(sheet, label_width(report.labels), *[10.5] * (2 * len(report.columns)))
    sheet.freeze_panes = "B3"


def _tokens(sheet: Worksheet, report: Report) -> None:
    head(sheet, 1, ["Model", *(title_of(suite) for suite in report.columns)], texts=("Model",))
    for row, label in enumerate(report.labels, 2):
        put(sheet, row, 1, label)
        for column, suite in enumerate(report.columns, 2):
            score = report.score(label, suite)
            if score and score.tokens is not None:
                put(sheet, row, column, score.tokens, style="#,##0.0")
    widths(
        sheet, label_width(report.labels), *(max(12, len(title_of(suite)) + 2) for suite in report.columns)
    )
    sheet.freeze_panes = "B2"


def _intervals(sheet: Worksheet, report: Report) -> None:
    names = [
        "Model",
        "Suite",
        "problems",
        "samples",
        "acc",
        "low",
        "high",
        "k",
        "pass@k",
        "low",
        "high",
        "majority",
        "tokens",
        "cut off",
        "no box",
        "unscored",
    ]
    head(sheet, 1, names, texts=("Model", "Suite"))
    row = 2
    for label in report.labels:
        for suite in report.columns:
            score = report.score(label, suite)
            if score is None:
                continue
            shares = [
                part for estimate in (score.acc, score.passed) for part in (estimate or (None,) * 3)[:3]
            ]
            values = [
                label,
                title_of(suite),
                score.problems,
                score.samples,
                *shares[:3],
                score.k or None,
                *shares[3:],
                score.majority,
                score.tokens,
                score.truncated,
                score.no_box,
                score.unscored,
            ]
            for column, value in enumerate(values, 1):
                share = names[column - 1] in ("acc", "low", "high", "pass@k", "majority")
                if value is not None:
                    put(
                        sheet,
                        row,
                        column,
                        100 * value if share else value,
                        style="0.0" if share or column == 13 else "",
                    )
            row += 1
    widths(sheet, label_width(report.labels), 18, *[10] * 14)
    sheet.freeze_panes = "C2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(names))}{row - 1}"


def _differences(sheet: Worksheet, report: Report) -> None:
    head(
        sheet,
        1,
        [
            "Model",
            "Suite",
            f"acc minus {report.baseline}",
            "low",
            "high",
            "p",
            "p (Holm)",
            "problems",
            "detectable",
            "verdict",
        ],
        texts=("Model", "Suite", "verdict"),
    )
    styles = {3: POINTS, 4: POINTS, 5: POINTS, 6: "0.0000", 7: "0.0000", 9: "0.0"}
    for row, ((label, suite), d) in enumerate(report.differences.items(), 2):
        points = [None if x is None else 100 * x for x in (*d.estimate[:3], d.detectable)]
        for column, value in enumerate(
            [
                label,
                title_of(suite),
                *points[:3],
                d.p,
                d.p_adjusted,
                d.common,
                points[3],
                f"{d.words} {d.stars}".strip(),
            ],
            1,
        ):
            if value is not None:
                cell = put(
                    sheet,
                    row,
                    column,
                    value,
                    style=styles.get(column, ""),
                    font=BOLD if d.stars and column == 10 else None,
                )
                if column == 10:
                    cell.alignment = INDENT
    widths(
        sheet,
        label_width(report.labels),
        18,
        max(16, len(report.baseline or "") + 12),
        9,
        9,
        9,
        9,
        10,
        12,
        12,
    )
    sheet.freeze_panes = "C2"
