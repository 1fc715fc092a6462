"""The two figures of a sweep: learning curves with the interval over seeds, and differences with their intervals."""

from collections.abc import Sequence
from pathlib import Path

from ..analysis.figure_style import BLACK, CYCLE, DASHES, GREY, MARKERS, empty, note, save_figure, styled
from ..evaluation.stats import mean_interval
from .paired import Row, Sweep

WINDOW = 3  # generated batches that a point of the reward curve averages


def draw(sweep: Sweep, rows: Sequence[Row], baseline: str, folder: Path) -> list[Path]:
    """Write curves.png/.pdf and differences.png/.pdf into the folder; the paths."""
    return [*_curves(sweep, rows, folder), *_differences(rows, baseline, folder)]


def _curves(sweep: Sweep, rows: Sequence[Row], folder: Path) -> list[Path]:
    suites = list(dict.fromkeys(row.suite for row in rows))
    with styled(columns=1 + len(suites)) as (figure, axes):
        looks = {arm: {"color": CYCLE[i % len(CYCLE)], "linestyle": DASHES[i % len(DASHES)]}
                 for i, arm in enumerate(dict.fromkeys(row.arm for row in rows))}
        _rewards(axes[0], sweep, looks)
        for panel, suite in zip(axes[1:], suites, strict=True):
            _held_out(panel, sweep, suite, looks)
            panel.legend(loc="lower right")
        seeds = sorted({e.seed for e in sweep.entries})
        note(figure, f"mean over {len(seeds)} seeds and its 95 % interval over seeds (Student t); bars are moved apart")
        return save_figure(figure, folder, "curves")


def _rewards(panel, sweep: Sweep, looks: dict) -> None:
    panel.set(title=f"Training: correct rollouts, mean of {WINDOW} batches", xlabel="step", ylabel="reward, %")
    if not any(t.rewards for t in sweep.trainings):
        empty(panel, "the runs' metrics.jsonl were not there")
        return
    for arm, look in looks.items():
        curves = [t.rewards for t in sweep.trainings if t.arm == arm and len(t.rewards) >= WINDOW]
        if not curves:
            continue
        length = min(map(len, curves))
        steps = [step for step, _ in curves[0][:length]][WINDOW - 1:]
        smooth = [[sum(value for _, value in curve[i - WINDOW + 1:i + 1]) / WINDOW for i in range(WINDOW - 1, length)]
                  for curve in curves]
        points = [mean_interval([curve[i] for curve in smooth]) for i in range(len(steps))]
        panel.plot(steps, [100 * p.value for p in points], label=arm, **look)
        if len(curves) > 1:
            panel.fill_between(steps, [100 * p.low for p in points], [100 * p.high for p in points],
                               color=look["color"], alpha=0.12, linewidth=0)
    panel.set_ylim(0, 100)


def _held_out(panel, sweep: Sweep, suite: str, looks: dict) -> None:
    panel.set(title=f"Held-out problems ({suite})", xlabel="step", ylabel="accuracy, %", ylim=(0, 100))
    steps = sweep.steps(suite)
    apart = 0.012 * (steps[-1] if steps else 1)
    for i, (arm, look) in enumerate(looks.items()):
        points = []
        if suite in sweep.start:
            points.append((0, 100 * sweep.start[suite], 0.0, 0.0))
        for step in steps:
            entries = sweep.at(arm, suite, step).values()
            if entries:
                mean = mean_interval([sum(e.right) / (e.n * len(e.right)) for e in entries])
                half = 0.0 if mean.low is None else mean.high - mean.value
                points.append((step + apart * (i - (len(looks) - 1) / 2), 100 * mean.value, 100 * half, 100 * half))
        if points:
            x, y, low, high = zip(*points, strict=True)
            panel.errorbar(x, y, yerr=[low, high], marker=MARKERS[i % len(MARKERS)], capsize=2.5, elinewidth=1,
                           label=arm, **look)


def _differences(rows: Sequence[Row], baseline: str, folder: Path) -> list[Path]:
    shown = [row for row in rows if row.against is not None]
    suites = list(dict.fromkeys(row.suite for row in rows))
    tallest = max([sum(row.suite == suite for row in shown) for suite in suites] + [1])
    with styled(columns=len(suites), width=6.4, height=1.4 + 0.36 * tallest) as (figure, axes):
        for panel, suite in zip(axes, suites, strict=True):
            some = [row for row in shown if row.suite == suite][::-1]
            if not some:
                empty(panel, "one arm alone has no difference")
                continue
            for place, row in enumerate(some):
                d = row.against.difference
                colour = BLACK if row.words in ("better", "worse") else GREY
                bars = [[0], [0]] if d.low is None else [[100 * (d.value - d.low)], [100 * (d.high - d.value)]]
                panel.errorbar([100 * d.value], [place], xerr=bars, fmt="o", color=colour, capsize=3)
            panel.axvline(0, color=BLACK, linewidth=0.8)
            panel.set_yticks(range(len(some)), [row.arm for row in some])
            panel.set_ylim(-0.6, len(some) - 0.4)
            panel.set(title=f"{suite}, step {some[0].step}", xlabel=f"accuracy minus that of {baseline}, points")
        note(figure, "95 % interval over seeds and problems; black: shown after Holm's correction, grey: not")
        return save_figure(figure, folder, "differences")
