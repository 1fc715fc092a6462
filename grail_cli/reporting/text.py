"""The table as text: markdown for a reader, LaTeX for a paper, CSV for a program."""

import csv
import io

from .model import Report, title_of

LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
CSV_COLUMNS = (
    "model",
    "suite",
    "problems",
    "samples",
    "fewest_samples",
    "most_samples",
    "acc",
    "acc_low",
    "acc_high",
    "pass_k",
    "pass",
    "pass_low",
    "pass_high",
    "majority",
    "avg_tokens",
    "truncated",
    "no_box",
    "unscored",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_holm",
    "common_problems",
)


def rows(report: Report) -> list[dict]:
    """One flat row a model and suite, averages last; shares as fractions, None where a model lacks the suite.

    This is the one source of the CSV file and of the `scores` list of `--json`.
    """
    found = []
    for label in report.labels:
        for suite in report.columns:
            score, difference = report.score(label, suite), report.differences.get((label, suite))
            row = dict.fromkeys(CSV_COLUMNS) | {"model": label, "suite": suite}
            if score:
                row |= {
                    "problems": score.problems,
                    "samples": score.samples,
                    "fewest_samples": score.fewest,
                    "most_samples": score.most,
                    "pass_k": score.k or None,
                    "majority": score.majority,
                    "avg_tokens": score.tokens,
                    "truncated": score.truncated,
                    "no_box": score.no_box,
                    "unscored": score.unscored,
                }
                for name, estimate in (("acc", score.acc), ("pass", score.passed)):
                    if estimate:
                        row |= {
                            name: estimate.value,
                            f"{name}_low": estimate.low,
                            f"{name}_high": estimate.high,
                        }
            if difference:
                row |= {
                    "difference": difference.estimate.value,
                    "difference_low": difference.estimate.low,
                    "difference_high": difference.estimate.high,
                    "p": difference.p,
                    "p_holm": difference.p_adjusted,
                    "common_problems": difference.common,
                }
            found.append(row)
    return found


def csv_text(report: Report) -> str:
    """One line a model and suite, every digit kept; blank where a model lacks the suite."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(report))
    return out.getvalue()


def cell(report: Report, label: str, suite: str, what: str) -> str:
    """`41.2 ±5.1*` in per cent, `41.2` without an interval, or nothing where a model lacks the suite."""
    score = report.score(label, suite)
    estimate = getattr(score, what) if score else None
    if estimate is None:
        return ""
    mark = report.mark(label, suite) if what == "acc" else ""
    return f"{100 * estimate.value:.1f} {estimate.spread if what == 'acc' else ''}".rstrip() + mark


def markdown(report: Report) -> str:
    """The results as a markdown table (best in bold), the differences to the baseline, and the notes."""
    return _document(report, plain=False)


def terminal(report: Report) -> str:
    """The same for a person at a terminal: the bare numbers, no markup."""
    return _document(report, plain=True)


def _document(report: Report, *, plain: bool) -> str:
    safe = str if plain else _safe
    head = ["model"]
    for suite in report.columns:
        head += [
            f"{safe(title_of(suite))} {report.pass_name(suite)}",
            f"{safe(title_of(suite))} {report.acc_name(suite)}",
        ]
    body = []
    for label in report.labels:
        line = [safe(label)]
        for suite in report.columns:
            for what in ("passed", "acc"):
                text = safe(cell(report, label, suite, what))
                line.append(f"**{text}**" if not plain and label in report.best(suite, what) else text)
        body.append(line)
    parts = [_grid(head, body), safe(caption(report))]
    if report.differences:
        parts += [
            _grid(
                ["model", "suite", "difference", "95 % interval", "p", "p (Holm)", "problems", "verdict"],
                [[safe(text) for text in _difference_line(report, *key)] for key in report.differences],
            ),
            safe(
                f"Differences in points of acc against {report.baseline}, paired by problem."
                + (" 'detectable' is the true difference that would show four times in five."
                   if any(difference.words == "tied" for difference in report.differences.values()) else "")
            ),
        ]
    if report.notes:
        parts.append("\n".join(f"- {safe(note)}" for note in report.notes))
    return "\n\n".join(parts) + "\n"


def caption(report: Report) -> str:
    """The sentence under the table: what the numbers are."""
    text = "Per cent. ±, or (low..high) where the value is not its middle: 95 % interval over problems"
    if report.baseline:
        text += f"; * ** ***: p < 0.05, 0.01, 0.001 against {report.baseline} (paired, Holm over suites)"
    if any(model.marked for model in report.models):
        text += "; †: golds that are the text of a Python list"
    return text + "."


def _difference_line(report: Report, label: str, suite: str) -> list[str]:
    d = report.differences[label, suite]
    low, high = d.estimate.low, d.estimate.high
    interval = "" if low is None else f"{100 * low:+.1f} to {100 * high:+.1f}"
    words = d.words
    if d.words == "tied" and d.detectable is not None:
        words = f"tied (detectable: {100 * d.detectable:.1f})"
    return [
        label,
        title_of(suite),
        f"{100 * d.estimate.value:+.1f}",
        interval,
        f"{d.p:.3g}",
        f"{d.p_adjusted:.3g}",
        str(d.common),
        words,
    ]


def _safe(text: str) -> str:
    """Text that markdown shows as it is."""
    return "".join("\\" + c if c in "\\`*_|<>[]" else c for c in text.replace("\n", " "))


def _grid(head: list[str], body: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    widths = [max(width, 3) for width in widths]

    def draw(line: list[str]) -> str:
        return (
            "| "
            + " | ".join(
                text.ljust(w) if i == 0 else text.rjust(w)
                for i, (text, w) in enumerate(zip(line, widths, strict=True))
            )
            + " |"
        )

    rule = (
        "| " + " | ".join(("-" * w if i == 0 else "-" * (w - 1) + ":") for i, w in enumerate(widths)) + " |"
    )
    return "\n".join([draw(head), rule, *map(draw, body)])


def latex(report: Report) -> str:
    """A booktabs table: best in bold, intervals as ±, significance as superscripts."""
    columns = report.columns
    top = " & ".join(["", *(rf"\multicolumn{{2}}{{c}}{{{escape(title_of(suite))}}}" for suite in columns)])
    rules = "".join(rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(len(columns)))
    names = " & ".join(
        [
            "Model",
            *(
                escape(name)
                for suite in columns
                for name in (report.pass_name(suite), report.acc_name(suite))
            ),
        ]
    )
    words = escape(caption(report)).replace("±", r"$\pm$").replace("†", r"$\dagger$")
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{words}}}",
        rf"\begin{{tabular}}{{l{'rr' * len(columns)}}}",
        r"\toprule",
        top + r" \\",
        rules,
        names + r" \\",
        r"\midrule",
    ]
    for label in report.labels:
        cells = [_latex_cell(report, label, suite, what) for suite in columns for what in ("passed", "acc")]
        lines.append(" & ".join([escape(label), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_cell(report: Report, label: str, suite: str, what: str) -> str:
    score = report.score(label, suite)
    estimate = getattr(score, what) if score else None
    if estimate is None:
        return ""
    number = f"{100 * estimate.value:.1f}"
    if label in report.best(suite, what):
        number = rf"\textbf{{{number}}}"
    if what != "acc":
        return number
    spread = estimate.spread.replace("±", r"$\pm$")
    margin = rf"\,{{\scriptsize{spread}}}" if spread else ""
    mark = report.mark(label, suite).replace("†", r"\dagger")
    return number + margin + (f"$^{{{mark}}}$" if mark else "")


def escape(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(c, c) for c in text)
