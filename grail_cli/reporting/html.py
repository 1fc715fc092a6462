"""The report as one html page without any outside reference: sortable table, learning curves, browser of samples.

Samples sit in the page as gzip blocks in base64, a block for every 40 problems of a model and suite; the browser opens a
block when its problems are looked at. So a page with tens of thousands of completions still opens at once.
"""

import base64
import gzip
import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from .curves import charts, legend
from .model import ModelResults, Problem, Report, Sample, Score, title_of
from .text import caption

CHUNK = 40  # problems a block
LONGEST_TEXT = 40_000  # characters of a completion kept in the page
LETTERS = {"correct": "c", "wrong": "w", "no_box": "n", "timeout": "t", "error": "e", "unparseable_gold": "u"}


def page(report: Report, title: str = "Evaluation report") -> str:
    """The whole page as text (UTF-8, one file, no network)."""
    sections = [("results", "Results", _results(report)), ("curves", "Learning curves", _curves(report)),
                ("differences", "Differences", _differences(report)), ("tokens", "Tokens", _tokens(report)), ("settings", "Settings", _settings(report)),
                ("notes", "Notes", _notes(report))]
    sections = [section for section in sections if section[2]]
    body = "\n".join(f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{name}</h2>{content}</section>'
                     for key, name, content in sections)
    nav = "".join(f'<a href="#{key}">{name}</a>' for key, name, _ in [*sections, ("samples", "Samples", "")])
    lead = f"{len(report.models)} model{'s' * (len(report.models) != 1)}, {len(report.suites)} suite{'s' * (len(report.suites) != 1)}"
    if report.baseline:
        lead += f", baseline {report.baseline}"
    parts = {"TITLE": escape(title), "CSS": _asset("page.css"), "LEAD": escape(lead), "NAV": nav, "BODY": body,
             "DATA": _script_safe(json.dumps(_meta(report))), "BLOBS": "\n".join(_blocks(report)), "JS": _asset("page.js")}
    pieces = _asset("page.html").split("@@")  # text, NAME, text, NAME, ...: what is put in is never read for names again
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _asset(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _script_safe(text: str) -> str:
    """JSON that cannot end the script element that it stands in."""
    return text.replace("<", "\\u003c")


def _meta(report: Report) -> dict:
    labels = report.labels
    right = labels.index(report.baseline) if report.baseline else 0
    left = next((i for i in reversed(range(len(labels))) if i != right), right)  # the newest against the baseline
    return {"models": labels, "suites": list(report.suites), "chunk": CHUNK, "pair": [left, right]}


def _results(report: Report) -> str:
    """The table of results; each header sorts, best values are bold, intervals small beside the number."""
    top, names, column = ['<th rowspan="2" data-column="0" data-kind="text"><button type="button">Model</button></th>'], [], 1
    for suite in report.columns:
        top.append(f'<th class="group" colspan="2">{escape(title_of(suite))}</th>')
        for name in (report.pass_name(suite), report.acc_name(suite)):
            names.append(f'<th data-column="{column}"><button type="button">{escape(name)}</button></th>')
            column += 1
    lines = "".join(f"<tr>{_label_cell(label)}" + "".join(
        _share_cell(report, label, suite, what) for suite in report.columns for what in ("passed", "acc")) + "</tr>"
        for label in report.labels)
    return (f'<p class="lead">{escape(caption(report))}</p><div class="scroll"><table id="results-table"><thead>'
            f"<tr>{''.join(top)}</tr><tr>{''.join(names)}</tr></thead><tbody>{lines}</tbody></table></div>")


def _tokens(report: Report) -> str:
    """Mean completion tokens, sortable."""
    heads = '<th data-column="0" data-kind="text"><button type="button">Model</button></th>' + "".join(
        f'<th data-column="{i}"><button type="button">{escape(title_of(suite))}</button></th>'
        for i, suite in enumerate(report.columns, 1))
    lines = "".join(f"<tr>{_label_cell(label)}" + "".join(_tokens_cell(report.score(label, suite)) for suite in report.columns)
                    + "</tr>" for label in report.labels)
    return ('<p class="lead">Mean length of a completion.</p><div class="scroll"><table><thead>'
            f"<tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>")


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
        hint = f' title="95 % interval {100 * estimate.low:.1f} to {100 * estimate.high:.1f}; {score.problems} problems"'
    if estimate.margin is not None and what == "acc":
        margin = f' <span class="pm">±{100 * estimate.margin:.1f}</span>'
    mark = report.mark(label, suite) if what == "acc" else ""
    return f'<td data-value="{100 * estimate.value!r}"{hint}>{number}{mark}{margin}</td>'


def _differences(report: Report) -> str:
    if not report.differences:
        return ""
    head = ["Model", "Suite", "difference", "95 % interval", "p", "p (Holm)", "problems", "verdict", "detectable"]
    heads = "".join(f'<th data-column="{i}"{" data-kind=text" * (i in (0, 1, 7))}><button type="button">{name}</button></th>'
                    for i, name in enumerate(head))
    lines = []
    for (label, suite), d in report.differences.items():
        value, low, high, detectable = (None if x is None else 100 * x for x in (*d.estimate[:3], d.detectable))
        interval = "" if low is None else f"{low:+.1f} to {high:+.1f}"
        cells = [(label, label, "text"), (title_of(suite), title_of(suite), "text"), (value, f"{value:+.1f}", ""),
                 (low, interval, ""), (d.p, f"{d.p:.3g}", ""), (d.p_adjusted, f"{d.p_adjusted:.3g}", ""),
                 (d.common, str(d.common), ""), (d.words, f"{d.words} {d.stars}", "text"),
                 (detectable, "" if detectable is None else f"{detectable:.1f}", "")]
        lines.append("<tr>" + "".join(f'<td class="{kind}" data-value="{escape(str("" if key is None else key))}">{escape(text)}</td>'
                                      for key, text, kind in cells) + "</tr>")
    return (f'<p class="lead">Points of accuracy against {escape(report.baseline or "")}, paired by problem. '
            "Detectable: the true difference that the suite would show four times in five.</p>"
            f'<div class="scroll tall" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>')


def _curves(report: Report) -> str:
    drawn = charts(report)
    if not drawn:
        return ""
    keys = "".join(f"<li>{svg} {escape(run)}</li>" for run, svg in legend(report))
    figures = "".join(f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in drawn)
    return f'<p class="lead">Whiskers: 95 % intervals.</p><ul class="legend">{keys}</ul><div class="charts">{figures}</div>'


def _settings(report: Report) -> str:
    keys = ["folder", *dict.fromkeys(key for model in report.models for key in model.settings)]
    head = "".join(f"<th>{escape(name)}</th>" for name in ["Setting", *report.labels])
    lines = []
    for key in keys:
        values = [model.folder if key == "folder" else model.settings.get(key) for model in report.models]
        cells = "".join(f'<td class="text wrap">{escape("" if value is None else str(value))}</td>' for value in values)
        lines.append(f'<tr><th scope="row">{escape(key)}</th>{cells}</tr>')
    return (f"<details><summary>What each model was sampled and graded with ({len(keys)} settings)</summary>"
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div></details>')


def _notes(report: Report) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in report.notes)}</ul>' if report.notes else ""


def _blocks(report: Report) -> Iterator[str]:
    """An index a suite (problems and verdict letters), and a block for every CHUNK problems of a model."""
    for s, suite in enumerate(report.suites):
        problems: dict[str, Problem] = {}
        for model in report.models:
            for problem in model.suites.get(suite, ()):
                problems.setdefault(problem.id, problem)
        yield _block(f"index-{s}", {
            "ids": list(problems), "questions": [p.question for p in problems.values()], "golds": [p.gold for p in problems.values()],
            "verdicts": [[_letters(own.get(key)) for key in problems] for own in map(lambda m: _by_id(m, suite), report.models)]})
        for m, model in enumerate(report.models):
            own, keys = _by_id(model, suite), list(problems)
            for part in range(0, len(keys), CHUNK):
                rows = [[_sample(sample) for sample in own[key].samples] if key in own else [] for key in keys[part:part + CHUNK]]
                if any(rows):
                    yield _block(f"samples-{s}-{m}-{part // CHUNK}", rows)


def _by_id(model: ModelResults, suite: str) -> dict[str, Problem]:
    return {problem.id: problem for problem in model.suites.get(suite, ())}


def _letters(problem: Problem | None) -> str | None:
    """A letter a sample, as the page's filters read them; `l`: cut off at the token limit and not right."""
    if problem is None:
        return None
    return "".join("l" if sample.finish == "length" and sample.verdict != "correct" else LETTERS.get(sample.verdict, "e")
                   for sample in problem.samples)


def _sample(sample: Sample) -> dict:
    text = sample.text
    if len(text) > LONGEST_TEXT:
        half = LONGEST_TEXT // 2
        text = f"{text[:half]}\n\n[... {len(text) - 2 * half} characters left out here; samples.jsonl has them ...]\n\n{text[-half:]}"
    return {"s": text, "p": sample.pred, "v": sample.verdict, "r": sample.rule, "f": sample.finish,
            "t": "?" if sample.tokens is None else sample.tokens}


def _block(key: str, content: object) -> str:
    packed = gzip.compress(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"), compresslevel=6, mtime=0)
    return f'<script type="text/plain" id="{key}">{base64.b64encode(packed).decode("ascii")}</script>'
