"""Write the live help of every command, and the study's tables, into the README: `python tests/readme.py`.

The tables are computed from tests/study, which holds what `grail report --paired` and `grail analyze` wrote.
"""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
STUDY = Path(__file__).resolve().parent / "study"
TABLE = re.compile(r"(<!-- study: (\S+)(?: against (\S+))? -->\n).*?(<!-- end -->)", re.S)
BLOCK = re.compile(r"```text\n\$ (grail[^\n]*--help)\n(.*?)```", re.S)


def live_help(command: str) -> str:
    """What `grail X --help` prints at 100 columns without colour."""
    done = subprocess.run([sys.executable, "-m", "grail_cli", *shlex.split(command)[1:]], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"})
    return done.stdout.replace("python -m grail_cli", "grail").strip()


def study_table(name: str, baseline: str | None) -> str:
    """A table of the study as Markdown: arms against a baseline (paired JSON), or a table of `grail analyze` (CSV)."""
    if name in TABLES:
        with open(STUDY / name, encoding="utf-8", newline="") as file:
            return TABLES[name](list(csv.DictReader(file)))
    from grail_cli.reporting.paired import read_document, rows
    from grail_cli.reporting.paired_text import markdown

    sweep = read_document(STUDY / name)
    return markdown(sweep, rows(sweep, baseline), baseline)


def steps_table(rows: list[dict[str, str]]) -> str:
    """How often the first wrong step carries the most weight: a row a reader of the weights, a column a checkpoint."""
    found = [row for row in rows if row["quantity"] == "first wrong step on top"]
    points = list(dict.fromkeys(row["checkpoint"] for row in found))
    cells = {(row["method"], row["checkpoint"]): row for row in found}
    lines = grid("first wrong step on top, %", points)
    for method in dict.fromkeys(row["method"] for row in found):
        lines.append(line(method, [estimate(cells[method, point], 0, 100) for point in points]))
    first = [next(row for row in found if row["checkpoint"] == point) for point in points]
    lines.append(line("chance", [f"{100 * float(row['chance']):.0f}" for row in first]))
    lines.append(line("wrong rollouts", [row["rollouts"] for row in first]))
    return "\n".join(lines) + "\n"


def tail_table(rows: list[dict[str, str]]) -> str:
    """Spread of the reasoning weights by the number of tokens after the answer: a row a rule of statistics."""
    cells = {(row["stats"], row["post_tokens"]): row for row in rows}
    tails = list(dict.fromkeys(row["post_tokens"] for row in rows))
    lines = grid("sd of the reasoning weights, tokens after the answer:", tails)
    for rule in dict.fromkeys(row["stats"] for row in rows):
        lines.append(line(f"`stats: {rule}`", [estimate(cells[rule, tail], 2) for tail in tails]))
    lines.append(line("rollouts", [cells[rows[0]["stats"], tail]["rollouts"] for tail in tails]))
    return "\n".join(lines) + "\n"


def deletion_table(rows: list[dict[str, str]]) -> str:
    """What the answer loses when tokens are deleted (nats): a row a ranking, the best by position-matched deletion first."""
    cells = {(row["ranking"], row["kind"], row["share"]): row for row in rows}
    columns = [("top share", share, f"top {float(share):.0%}".replace("%", " %"))
               for share in dict.fromkeys(row["share"] for row in rows if row["kind"] == "top share")]
    columns.append(("position-matched", "", "one in each eighth"))
    lines = grid("drop of the answer's log-probability, nats", [name for _, _, name in columns])
    rankings = dict.fromkeys(row["ranking"] for row in rows)
    for ranking in sorted(rankings, key=lambda name: -float(cells[name, "position-matched", ""]["mean"])):
        lines.append(line(ranking, [estimate(cells[ranking, kind, share], 1) for kind, share, _ in columns]))
    lines.append(line("rollouts", [rows[0]["rollouts"]] * len(columns)))
    return "\n".join(lines) + "\n"


TABLES = {"first_wrong_step.csv": steps_table, "tail_lengths.csv": tail_table, "deletion.csv": deletion_table}


def grid(corner: str, columns: list[str]) -> list[str]:
    """The head of a Markdown table whose columns are numbers."""
    return [line(corner, columns), "|---|" + "---:|" * len(columns)]


def line(name: str, cells: list[str]) -> str:
    """One row of a Markdown table."""
    return f"| {name} | {' | '.join(cells)} |"


def estimate(row: dict[str, str], digits: int, factor: float = 1) -> str:
    """A mean with its 95 % interval."""
    mean, low, high = (f"{factor * float(row[key]):z.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} ({low} .. {high})"


def refreshed(text: str) -> str:
    """The README with every help block as the program prints it now, and the study's tables as its files give them."""
    text = TABLE.sub(lambda match: match[1] + "\n" + study_table(match[2], match[3]) + "\n" + match[4], text)
    return BLOCK.sub(lambda match: f"```text\n$ {match[1]}\n{live_help(match[1])}\n```", text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
