"""Markdown, LaTeX and CSV: the same numbers in all three, rounded only for readers."""

import csv
import io
import re
import shutil
import subprocess

import pytest

from grail_cli.reporting import text

from . import hand


def test_csv_keeps_every_digit_and_leaves_missing_cells_blank():
    rows = {
        (row["model"], row["suite"]): row for row in csv.DictReader(io.StringIO(text.csv_text(hand.report())))
    }
    assert len(rows) == 3 * 4
    assert float(rows["run@step-200", "average"]["acc"]) == 0.6275
    assert float(rows["run@step-200", "amc23"]["p_holm"]) == 0.0008
    assert set(rows["run@step-100", "math"].values()) == {"run@step-100", "math", ""}


def test_markdown_shows_intervals_marks_and_the_best_in_bold():
    lines = text.markdown(hand.report()).splitlines()
    cells = [cell.strip() for cell in lines[4].strip("|").split("|")]
    assert cells[:5] == ["run@step-200", "**65.0**", r"**52.5 ±8.0\*\*\***", "81.0", "**73.0 ±4.0**"]
    assert [cell.strip() for cell in lines[3].strip("|").split("|")][1:] == ["61.0", "45.0 ±9.0"] + [""] * 6
    assert any("tied (detectable: 10.0)" in line for line in lines)


def test_all_formats_carry_the_same_numbers():
    report = hand.report()
    wanted = [f"{100 * row['acc']:.1f}" for row in text.rows(report) if row["acc"] is not None]
    table = [line for line in text.markdown(report).splitlines() if line.startswith("| ")]
    marked = re.findall(r"(\d+\.\d) ±", "\n".join(table[:5]))
    typeset = re.findall(r"(\d+\.\d)\}?\\,", text.latex(report))
    assert marked == typeset == wanted


def test_a_readers_table_for_the_terminal_has_no_escapes():
    shown = text.terminal(hand.report())
    assert "\\" not in shown and shown.splitlines()[4].split("|")[2:5] == [
        "         65.0 ",
        " 52.5 ±8.0*** ",
        "        81.0 ",
    ]


def test_hostile_names_stay_text_in_latex_and_markdown():
    assert (
        text.escape(r"a_b & 50% \x{} $^~#")
        == r"a\_b \& 50\% \textbackslash{}x\{\} \$\textasciicircum{}\textasciitilde{}\#"
    )
    table = text.markdown(hand.report(hostile=True)).splitlines()
    assert len(set(len(re.findall(r"(?<!\\)\|", line)) for line in table[:5])) == 1  # no cell splits a row
    assert r"\<script\>" in table[2]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_latex_table_compiles(tmp_path):
    body = text.latex(hand.report(hostile=True))
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + body + "\\end{document}"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
