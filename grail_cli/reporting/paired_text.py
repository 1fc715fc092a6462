"""A sweep's comparison as a table: on the terminal, in Markdown, CSV, and as JSON rows."""

import csv
import io
from collections.abc import Sequence

from .paired import Row, Sweep
from .two_level import Interval

HEADS = ("arm", "seeds", "acc %", "pass@{k} %", "tokens", "credit %", "difference", "p", "verdict")
COLUMNS = ("suite", "step", "arm", "seeds", "acc", "acc_low", "acc_high", "k", "passed", "passed_low", "passed_high",
           "tokens", "credit_share", "difference", "difference_low", "difference_high", "p", "p_adjusted",
           "detectable", "verdict")


def cells(row: Row) -> list[str]:
    """One row of the table, as text; shares in per cent, differences in points."""
    difference = p = ""
    if row.against is not None:
        difference = _spread(row.against.difference, "{:+.1f}", ("{:+.1f}", "{:+.1f}"))
        p = "" if row.p_adjusted is None else f"{row.p_adjusted:.3f}"
    return [row.arm, str(row.seeds), _spread(row.accuracy), _spread(row.passed),
            "" if row.tokens is None else f"{row.tokens:.1f}",
            "" if row.credit_share is None else f"{100 * row.credit_share:.0f}", difference, p, row.words]


def _spread(interval: Interval, value: str = "{:.1f}", bounds: tuple[str, str] = ("{:.1f}", "{:.1f}")) -> str:
    text = value.format(100 * interval.value)
    if interval.low is None:
        return text
    return f"{text} ({bounds[0].format(100 * interval.low)} .. {bounds[1].format(100 * interval.high)})"


def heads(rows: Sequence[Row]) -> list[str]:
    ks = {row.k for row in rows}
    return [head.format(k=ks.copy().pop() if len(ks) == 1 else "k") for head in HEADS]


def groups(rows: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    """(suite, step) -> its rows, in order."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row.suite, row.step), []).append(row)
    return found


def footnotes(sweep: Sweep, rows: Sequence[Row], baseline: str) -> list[str]:
    """What a reader of the table has to know, a sentence each."""
    detectable = [row.against.detectable for row in rows if row.against and row.against.detectable]
    told = [f"Differences are against {baseline}, paired by seed and problem; in brackets 95 % intervals over seeds and "
            "problems. p: exact, signs of the seeds' differences, adjusted over the arms (Holm)."]
    if any(row.credit_share is not None for row in rows):
        told.append("credit %: seconds for the weights over the seconds of the rest of a step, in the same run.")
    if detectable:
        low, high = 100 * min(detectable), 100 * max(detectable)
        told.append(f"A true difference of {low:.1f} to {high:.1f} points, by arm, would show four times in five.")
    told += [f"All runs began at {100 * value:.1f} % on {suite}." for suite, value in sweep.start.items()]
    return told + list(sweep.notes)


def markdown(sweep: Sweep, rows: Sequence[Row], baseline: str) -> str:
    """The table as Markdown, with its footnotes below."""
    parts = []
    for (suite, step), some in groups(rows).items():
        parts += [f"{suite}, step {step}", "", f"| {' | '.join(heads(some))} |",
                  f"|{'|'.join('---' if i in (0, len(HEADS) - 1) else '---:' for i in range(len(HEADS)))}|"]
        parts += [f"| {' | '.join(cells(row))} |" for row in some] + [""]
    parts += [f"- {note}" for note in footnotes(sweep, rows, baseline)]
    return "\n".join(parts) + "\n"


def terminal(sweep: Sweep, rows: Sequence[Row], baseline: str):
    """The table for rich."""
    from rich.console import Group
    from rich.table import Table

    tables = []
    for (suite, step), some in groups(rows).items():
        table = Table(title=f"{suite}, step {step}", title_justify="left", box=None, pad_edge=False)
        for i, head in enumerate(heads(some)):
            table.add_column(head, justify="left" if i in (0, len(HEADS) - 1) else "right")
        for row in some:
            table.add_row(*cells(row))
        tables += [table, ""]
    return Group(*tables, *footnotes(sweep, rows, baseline))


def as_json(row: Row) -> dict:
    """One row with every number, shares of one; null where there is none."""
    against = row.against
    inner = against.difference if against else Interval(None, None, None)
    values = (row.suite, row.step, row.arm, row.seeds, *row.accuracy, row.k, *row.passed, row.tokens,
              row.credit_share, *inner, against.p if against else None, row.p_adjusted,
              against.detectable if against else None, row.words)
    return dict(zip(COLUMNS, values, strict=True))


def csv_text(rows: Sequence[Row]) -> str:
    """Every number of every row as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(as_json(row) for row in rows)
    return out.getvalue()
