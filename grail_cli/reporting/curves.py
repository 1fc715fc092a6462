"""Learning curves: accuracy over the checkpoints of each run, one small chart a suite, as inline SVG.

Runs differ in colour, dash and marker at once (the colours are Okabe and Ito's), so that no chart depends on
colour alone.
"""

import math
from dataclasses import dataclass
from html import escape

from .model import AVERAGE, Estimate, Report, title_of

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, INSET = 400, 250, 44, 14, 12, 36, 12


@dataclass(frozen=True)
class Curve:
    """One run on one suite: (step, accuracy) in order of the steps."""

    run: str
    points: tuple[tuple[int, Estimate], ...]


def curves(report: Report, suite: str) -> list[Curve]:
    """The runs with at least two checkpoints that have the suite."""
    runs: dict[str, list[tuple[int, Estimate]]] = {}
    for model in report.models:
        score = report.score(model.label, suite)
        if model.step is not None and score and score.acc:
            runs.setdefault(model.run, []).append((model.step, score.acc))
    return [Curve(run, tuple(sorted(points))) for run, points in runs.items() if len(points) > 1]


def charts(report: Report) -> list[tuple[str, str]]:
    """(title, SVG) for every suite and for the average that has a curve; all with one accuracy axis."""
    style = {run: i for i, run in enumerate(run_names(report))}
    names = [name for name in report.columns if name in report.suites or name == AVERAGE]
    drawn = {name: (lines, _level(report, name)) for name in names if (lines := curves(report, name))}
    shares = [share for lines, level in drawn.values() for share in _shares(lines, level)]
    ticks = _ticks(min(shares), max(shares)) if shares else []
    return [(title_of(name), chart(lines, style, level, ticks)) for name, (lines, level) in drawn.items()]


def run_names(report: Report) -> list[str]:
    """Runs with a curve on any suite, in the order of the report."""
    return list(dict.fromkeys(curve.run for suite in report.columns for curve in curves(report, suite)))


def _level(report: Report, suite: str) -> tuple[str, float] | None:
    """The baseline's accuracy as a level line, when the baseline is no checkpoint of a run."""
    model = next((m for m in report.models if m.label == report.baseline and m.step is None), None)
    score = report.score(model.label, suite) if model else None
    return (model.label, score.acc.value) if score and score.acc else None


def _shares(lines: list[Curve], level: tuple[str, float] | None) -> list[float]:
    """What an accuracy axis has to hold: values, ends of intervals and the level, cut to 0..1."""
    found = [x for line in lines for _, acc in line.points for x in acc[:3] if x is not None]
    return [min(max(share, 0.0), 1.0) for share in [*found, *([level[1]] if level else [])]]


def chart(
    lines: list[Curve],
    style: dict[str, int],
    level: tuple[str, float] | None = None,
    ticks: list[float] | None = None,
) -> str:
    """One chart as an SVG element: lines with markers, whiskers for the 95 % interval, values on hovering.

    ticks: the accuracy axis, shared among charts that are read side by side; by default one that fits these lines.
    """
    steps = [step for line in lines for step, _ in line.points]
    first, last = min(steps), max(steps)
    if ticks is None:
        shares = _shares(lines, level)
        ticks = _ticks(min(shares), max(shares))
    low, high = ticks[0], ticks[-1]

    def x(step: float) -> float:
        return LEFT + INSET + (WIDTH - LEFT - RIGHT - 2 * INSET) * (step - first) / (last - first)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (min(max(share, low), high) - low) / (high - low)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape("; ".join(_spoken(line) for line in lines))}">'
    ]
    for tick in ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{100 * tick:g}</text>'
        )
    for step in _step_ticks(sorted(set(steps))):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{step}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">step</text>'
        f'<text x="12" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 12 {(TOP + HEIGHT - BOTTOM) / 2})">accuracy, %</text>'
    )
    if level:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level[1]):.1f}" y2="{y(level[1]):.1f}" '
            'stroke="currentColor" '
            f'stroke-dasharray="1 4"><title>{escape(level[0])}: {100 * level[1]:.1f}</title></line>'
        )
    for line in lines:
        parts.append(_draw(line, style[line.run], len(lines), x, y))
    return "".join(parts) + "</svg>"


def _draw(line: Curve, number: int, among: int, x, y) -> str:
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    shift = (number - (among - 1) / 2) * 3 if among > 1 else 0.0  # whiskers of several runs side by side
    path = " ".join(f"{x(step):.1f},{y(acc.value):.1f}" for step, acc in line.points)
    parts = [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>'
    ]
    for step, acc in line.points:
        interval = ""
        if acc.low is not None and acc.high is not None:
            interval = f" ({100 * acc.low:.1f} to {100 * acc.high:.1f})"
            parts.append(
                f'<line x1="{x(step) + shift:.1f}" x2="{x(step) + shift:.1f}" '
                f'y1="{y(acc.low):.1f}" y2="{y(acc.high):.1f}" '
                f'stroke="{colour}" stroke-width="1.5" opacity="0.45"/>'
            )
        parts.append(
            f"<g><title>{escape(line.run)}, step {step}: {100 * acc.value:.1f}{interval}</title>"
            f"{marker(number, x(step), y(acc.value))}</g>"
        )
    return "".join(parts)


def marker(number: int, cx: float, cy: float) -> str:
    """The marker of the run with this number: circle, square, triangle, diamond, in its colour."""
    colour = COLOURS[number % len(COLOURS)]
    shape = number % 4
    if shape == 0:
        return f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="4" fill="{colour}"/>'
    offsets = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5), (5, 4), (-5, 4)),
        3: ((0, -6), (6, 0), (0, 6), (-6, 0)),
    }
    points = " ".join(f"{cx + dx:.1f},{cy + dy:.1f}" for dx, dy in offsets[shape])
    return f'<polygon points="{points}" fill="{colour}"/>'


def legend(report: Report) -> list[tuple[str, str]]:
    """(run, SVG of its line and marker) for the legend; the baseline's level line last."""
    entries = []
    for i, run in enumerate(run_names(report)):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        line = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        entries.append((run, _key(line, marker(i, 17, 7))))
    level = next((found for suite in report.suites if (found := _level(report, suite))), None)
    if level:
        entries.append((level[0], _key('stroke="currentColor" stroke-dasharray="1 4"')))
    return entries


def _key(line: str, mark: str = "") -> str:
    return (
        '<svg width="34" height="14" viewBox="0 0 34 14" aria-hidden="true">'
        f'<line x1="0" x2="34" y1="7" y2="7" {line}/>{mark}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """At most eight round values around `low` to `high`: the axis runs from the first to the last."""
    if high - low < 0.02:
        low, high = max(0.0, low - 0.05), min(1.0, high + 0.05)
    step = next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / step <= 6), 0.2)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 4) for i in range(first, last + 1)]


def _step_ticks(steps: list[int]) -> list[int]:
    """At most six labels, the first and the last among them."""
    if len(steps) <= 6:
        return steps
    return sorted({steps[round(i * (len(steps) - 1) / 5)] for i in range(6)})


def _spoken(line: Curve) -> str:
    (first, start), (last, end) = line.points[0], line.points[-1]
    return f"{line.run}: {100 * start.value:.1f} % at step {first}, {100 * end.value:.1f} % at step {last}"
