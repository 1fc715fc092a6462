"""Cells of a workbook: text that stays text, headings, widths, and sheet names that Excel allows."""

import re

from openpyxl.cell.cell import Cell
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

BOLD = Font(name="Calibri", size=11, bold=True)
HEAD_FILL = PatternFill("solid", fgColor="E8ECF0")
SIDE = Side(style="thin", color="8A949E")
LINE = Border(bottom=SIDE)
CENTRE, RIGHT = Alignment(horizontal="center"), Alignment(horizontal="right")
TOP, WRAP = Alignment(vertical="top"), Alignment(vertical="top", wrap_text=True)
INDENT = Alignment(horizontal="left", vertical="top", indent=1)
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # what XML cannot hold
LONGEST_CELL = 32_767  # characters; Excel's limit


def put(
    sheet: Worksheet, row: int, column: int, value: object, *, style: str = "", font: Font | None = None
) -> Cell:
    """Write one cell; text stays text (never a formula), without characters that a workbook cannot hold."""
    cell = sheet.cell(row, column)
    if isinstance(value, str):
        text = UNFIT.sub("\ufffd", value)
        cell.value = text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 10] + " ... (cut)"
        cell.data_type = "s"
    else:
        cell.value = value
    if style:
        cell.number_format = style
    if font:
        cell.font = font
    return cell


def head(
    sheet: Worksheet, row: int, names: list[str], *, start: int = 1, texts: tuple[str, ...] = ()
) -> None:
    """A row of headings: over texts (those named) to the left, over numbers to the right."""
    for column, name in enumerate(names, start):
        cell = put(sheet, row, column, name, font=BOLD)
        cell.fill, cell.border = HEAD_FILL, LINE
        if name not in texts:
            cell.alignment = RIGHT


def group(sheet: Worksheet, column: int, name: str, width: int) -> None:
    """One merged heading in row 1 over `width` columns."""
    head(sheet, 1, [name] + [""] * (width - 1), start=column)
    for offset in range(1, width):
        sheet.cell(1, column + offset).value = None
    sheet.cell(1, column).alignment = CENTRE
    if width > 1:
        sheet.merge_cells(start_row=1, end_row=1, start_column=column, end_column=column + width - 1)


def widths(sheet: Worksheet, *widths: float) -> None:
    for column, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(column)].width = width


def label_width(labels: list[str]) -> float:
    return min(60, max(12, *(len(label) + 2 for label in labels)))


def sheet_name(suite: str, taken: list[str]) -> str:
    """A sheet name that Excel allows: 31 characters, none of []:*?/\\, told apart from those taken."""
    base = re.sub(r"[\[\]:*?/\\]", "-", suite).strip("'")[:31] or "suite"
    name, number = base, 2
    while name.lower() in {other.lower() for other in taken}:
        name, number = f"{base[: 31 - len(str(number)) - 1].rstrip()}-{number}", number + 1
    return name
