"""A report into files: which formats, under which names, each written whole."""

from pathlib import Path

from ..errors import GrailError, nearest
from ..files import write_bytes
from .model import Report

FORMATS = ("xlsx", "csv", "md", "html", "tex")


def plan(out: Path, formats: str | None) -> list[Path]:
    """The files to write: `out`, or one a format of the comma list under out's name.

    Raises GrailError for an unknown format or ending, and when a folder stands where a file is to go.
    """
    ending = out.suffix.lstrip(".").lower()
    if ending not in FORMATS:
        raise GrailError(
            f"{out.name!r} ends in no format that a report has.",
            where="--out",
            hint=f"end it in one of: {', '.join('.' + name for name in FORMATS)}.",
        )
    names = (
        [name.strip().lower() for name in formats.split(",") if name.strip()]
        if formats is not None
        else [ending]
    )
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        word = unknown[0] if unknown else ""
        raise GrailError(
            f"format {word!r} is unknown; {nearest(word, FORMATS)}",
            where="--format",
            hint=f"choose from {', '.join(FORMATS)}.",
        )
    files = [out.with_suffix(f".{name}") for name in dict.fromkeys(names)]
    for file in files:
        if file.is_dir():
            raise GrailError(
                "a folder, where the report is to be written.", where=str(file), hint="choose another --out."
            )
    return files


def write(report: Report, files: list[Path]) -> None:
    """Write the report into each file, by its ending; a file appears whole or not at all.

    Raises GrailError on a full or forbidden disk.
    """
    for file in files:
        content = render(report, file.suffix.lstrip("."))
        if isinstance(content, str):
            content = content.encode("utf-8", "replace")  # a completion may hold half a surrogate pair
        try:
            write_bytes(file, content)
        except OSError as error:
            raise GrailError(
                f"cannot be written ({error.strerror}).", where=str(file), hint="choose another --out."
            ) from None


def render(report: Report, name: str) -> str | bytes:
    """The report in one format, as text or (xlsx) bytes."""
    if name == "xlsx":
        from .xlsx import workbook_bytes

        return workbook_bytes(report)
    if name == "html":
        from .html import page

        return page(report)
    from . import text

    return {"csv": text.csv_text, "md": text.markdown, "tex": text.latex}[name](report)
