"""The report as one html page, nothing from outside: sortable tables, learning curves, browser of samples."""

import json
from html import escape
from importlib.resources import files

from .blocks import CHUNK, blocks
from .curves import charts, legend
from .model import Report, Score, title_of
from .text import caption


def page(report: Report, title: str = "Evaluation report") -> str:
    """The whole page as text (UTF-8, one file, no network)."""
    sections = [
        ("results", "Results", _results(report)),
        ("notes", "Notes", _notes(report)),
        ("curves", "Learning curves", _curves(report)),
        ("differences", "Differences", _differences(report)),
        ("tokens", "Tokens", _tokens(report)),
        ("settings", "Settings", _settings(report)),
    ]
    sections = [section for section in sections if section[2]]
    body = "\n".join(
        f'<section id="{key}" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{name}</h2>{content}</section>'
        for key, name, content in sections
    )
    nav = "".join(f'<a href="#{key}">{name}</a>' for key, name, _ in [*sections, ("samples", "Samples", "")])
    lead = f"Models: {len(report.models)}. Suites: {len(report.suites)}."
    if report.baseline:
        lead += f" Baseline: {report.baseline}."
    parts = {
        "TITLE": escape(title),
        "CSS": _asset("page.css"),
        "LEAD": escape(lead),
        "NAV": nav,
        "BODY": body,
        "DATA": _script_safe(json.dumps(_meta(report))),
        "BLOBS": "\n".join(blocks(report)),
        "JS": _asset("page.js"),
    }
    pieces = _asset("page.html").split(
        "@@"
    )  # text, NAME, text, NAME, ...: what is put in is never read for names again
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _asset(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _script_safe(text: str) -> str:
    """JSON that cannot end the script element that it stands in."""
    return text.replace("<", "\\u003c")


def _meta(report: Report) -> dict:
    labels = report.labels
    right = labels.index(report.baseline) if report.baseline else 0
    left = next(
        (i for i in reversed(range(len(labels))) if i != right), right
    )  # the newest against the baseline
    return {"models": labels, "suites": list(report.suites), "chunk": CHUNK, "pair": [left, right]}


def _results(report: Report) -> str:
    """The table of results; each header sorts, best values are bold, intervals small beside the number."""
    top, names, column = (
        ['<th rowspan="2" data-column="0" data-kind="text"><button type="button">Model</button></th>'],
        [],
        1,
    )
    for suite in report.columns:
        top.append(f'<th class="group" colspan="2">{escape(title_of(suite))}</th>')
        for name in (report.pass_name(suite), report.acc_name(suite)):
            names.append(f'<th data-column="{column}"><button type="button">{escape(name)}</button></th>')
            column += 1
    lines = "".join(
        f"<tr>{_label_cell(label)}"
        + "".join(
            _share_cell(report, label, suite, what) for suite in report.columns for what in ("passed", "acc")
        )
        + "</tr>"
        for label in report.labels
    )
    return (
        f'<p class="lead">{escape(caption(report))}</p><div class="scroll"><table id="results-table"><thead>'
        f"<tr>{''.join(top)}</tr><tr>{''.join(names)}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _tokens(report: Report) -> str:
    """Mean completion tokens, sortable."""
    heads = '<th data-column="0" data-kind="text"><button type="button">Model</button></th>' + "".join(
        f'<th data-column="{i}"><button type="button">{escape(title_of(suite))}</button></th>'
        for i, suite in enumerate(report.columns, 1)
    )
    lines = "".join(
        f"<tr>{_label_cell(label)}"
        + "".join(_tokens_cell(report.score(label, suite)) for suite in report.columns)
        + "</tr>"
        for label in report.labels
    )
    return (
        '<p class="lead">Mean length of a completion.</p><div class="scroll"><table><thead>'
        f"<tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _tokens_cell(score: Score | None) -> str:
    if score is None or score.tokens is None:
        return "<td></td>"
    return f'<td data-value="{score.tokens!r}">{score.tokens:,.0f}</td>'


def _label_cell(label: str) -> str:
    return f'<th scope="row" data-value="{escape(label)}">{escape(label)}</th>'


def _share_cell(report: Report, label: str, suite: str, what: str) -> str:
    score = report.score(label, suite)
    estimate = getattr(score, what) if score else None
    if estimate is None:
        return "<td></td>"
    number = f"{100 * estimate.value:.1f}"
    if label in report.best(suite, what):
        number = f"<b>{number}</b>"
    hint, margin = "", ""
    if estimate.low is not None:
        interval = f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"
        hint = f' title="95 % interval {interval}; {score.problems} problems"'
    if estimate.spread and what == "acc":
        margin = f' <span class="pm">{estimate.spread}</span>'
    mark = report.mark(label, suite) if what == "acc" else ""
    return f'<td data-value="{100 * estimate.value!r}"{hint}>{number}{mark}{margin}</td>'


def _differences(report: Report) -> str:
    if not report.differences:
        return ""
    head = [
        "Model",
        "Suite",
        "difference",
        "95 % interval",
        "p",
        "p (Holm)",
        "problems",
        "verdict",
        "detectable",
    ]
    heads = "".join(
        f'<th data-column="{i}"{" data-kind=text" * (i in (0, 1, 7))}>'
        f'<button type="button">{name}</button></th>'
        for i, name in enumerate(head)
    )
    lines = []
    for (label, suite), d in report.differences.items():
        value, low, high, detectable = (
            None if x is None else 100 * x for x in (*d.estimate[:3], d.detectable)
        )
        interval = "" if low is None else f"{low:+.1f} to {high:+.1f}"
        cells = [
            (label, label, "text"),
            (title_of(suite), title_of(suite), "text"),
            (value, f"{value:+.1f}", ""),
            (low, interval, ""),
            (d.p, f"{d.p:.3g}", ""),
            (d.p_adjusted, f"{d.p_adjusted:.3g}", ""),
            (d.common, str(d.common), ""),
            (d.words, f"{d.words} {d.stars}", "text"),
            (detectable, "" if detectable is None else f"{detectable:.1f}", ""),
        ]
        lines.append(
            "<tr>"
            + "".join(
                f'<td class="{kind}" data-value="{escape(_key(key))}">{escape(text)}</td>'
                for key, text, kind in cells
            )
            + "</tr>"
        )
    return (
        f'<p class="lead">Points of accuracy against {escape(report.baseline or "")}, paired by problem. '
        "Detectable: the true difference that the suite would show four times in five.</p>"
        f'<div class="scroll tall" tabindex="0"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _key(value: object) -> str:
    """What a cell is sorted by; blank cells stay last."""
    return "" if value is None else str(value)


def _curves(report: Report) -> str:
    drawn = charts(report)
    if not drawn:
        return ""
    keys = "".join(f"<li>{svg} {escape(run)}</li>" for run, svg in legend(report))
    figures = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in drawn
    )
    return (
        f'<p class="lead">Whiskers: 95 % intervals.</p><ul class="legend">{keys}</ul>'
        f'<div class="charts">{figures}</div>'
    )


def _settings(report: Report) -> str:
    keys = ["folder", *dict.fromkeys(key for model in report.models for key in model.settings)]
    head = "".join(f"<th>{escape(name)}</th>" for name in ["Setting", *report.labels])
    lines = []
    for key in keys:
        values = [model.folder if key == "folder" else model.settings.get(key) for model in report.models]
        cells = "".join(
            f'<td class="text wrap">{escape("" if value is None else str(value))}</td>' for value in values
        )
        lines.append(f'<tr><th scope="row">{escape(key)}</th>{cells}</tr>')
    return (
        f"<details><summary>What each model was sampled and graded with ({len(keys)} settings)</summary>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div></details>"
    )


def _notes(report: Report) -> str:
    return (
        f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in report.notes)}</ul>'
        if report.notes
        else ""
    )
