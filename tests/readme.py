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
    """A table of the study as Markdown: arms against a baseline (paired JSON), or where the first wrong step ranks."""
    if name.endswith(".csv"):
        return steps_table(STUDY / name)
    from grail_cli.reporting.paired import read_document, rows
    from grail_cli.reporting.paired_text import markdown

    sweep = read_document(STUDY / name)
    return markdown(sweep, rows(sweep, baseline), baseline)


def steps_table(path: Path) -> str:
    """How often the first wrong step carries the most weight: a row a reader of the weights, a column a checkpoint."""
    with open(path, encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["quantity"] == "first wrong step on top"]
    points = list(dict.fromkeys(row["checkpoint"] for row in found))
    cells = {(row["method"], row["checkpoint"]): row for row in found}
    lines = [f"| first wrong step on top, % | {' | '.join(points)} |", "|---|" + "---:|" * len(points)]
    for method in dict.fromkeys(row["method"] for row in found):
        lines.append(f"| {method} | " + " | ".join(
            "{:.0f} ({:.0f} .. {:.0f})".format(*(100 * float(cells[method, point][key]) for key in ("mean", "low", "high")))
            for point in points) + " |")
    first = [next(row for row in found if row["checkpoint"] == point) for point in points]
    lines.append("| chance | " + " | ".join(f"{100 * float(row['chance']):.0f}" for row in first) + " |")
    lines.append("| wrong rollouts | " + " | ".join(row["rollouts"] for row in first) + " |")
    return "\n".join(lines) + "\n"


def refreshed(text: str) -> str:
    """The README with every help block as the program prints it now, and the study's tables as its files give them."""
    text = TABLE.sub(lambda match: match[1] + "\n" + study_table(match[2], match[3]) + "\n" + match[4], text)
    return BLOCK.sub(lambda match: f"```text\n$ {match[1]}\n{live_help(match[1])}\n```", text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
