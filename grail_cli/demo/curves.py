"""Learning curves of several runs in one figure: reward in training, held-out accuracy with its interval."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.figure_style import CYCLE, DASHES, MARKERS, save_figure, styled

if TYPE_CHECKING:
    from ..reporting.model import Report

WINDOW = 5  # batches of the moving mean of the reward


def moving_mean(values: list[float], window: int = WINDOW) -> list[float]:
    """The mean of each value and those up to `window` - 1 before it."""
    means = []
    for i in range(len(values)):
        part = values[max(0, i - window + 1):i + 1]
        means.append(sum(part) / len(part))
    return means


def points(report: "Report", run: str, suite: str, start: str) -> list[tuple[int, float, float, float]]:
    """(step, accuracy, low, high) of a run in per cent, the model `start` as step 0."""
    found = []
    for model in report.models:
        score = report.score(model.label, suite)
        step = 0 if model.label == start else model.step if model.run == run else None
        if step is None or score is None or score.acc is None:
            continue
        acc = score.acc
        low, high = (acc.value if bound is None else bound for bound in (acc.low, acc.high))
        found.append((step, 100 * acc.value, 100 * low, 100 * high))
    return sorted(found)


def draw_curves(rewards: dict[str, list[tuple[int, float]]], report: "Report", suite: str, start: str,
                folder: Path) -> list[Path]:
    """Write curves.png and curves.pdf of runs whose checkpoints are in the report.

    rewards: run -> (step, mean reward) of every generated batch.
    """
    with styled(columns=2) as (figure, (left, right)):
        for i, (run, values) in enumerate(rewards.items()):
            look = {"color": CYCLE[i], "linestyle": DASHES[i]}
            drawn = [step for step, _ in values]
            left.plot(drawn, [100 * v for v in moving_mean([v for _, v in values])], label=run, **look)
            steps, accuracy, low, high = zip(*points(report, run, suite, start), strict=True)
            right.errorbar(steps, accuracy, yerr=[[a - b for a, b in zip(accuracy, low, strict=True)],
                                                  [b - a for a, b in zip(accuracy, high, strict=True)]],
                           marker=MARKERS[i], capsize=3, elinewidth=1, label=run, **look)
        left.set(title=f"Training: correct rollouts, mean of {WINDOW} batches", xlabel="step",
                 ylabel="reward, %")
        right.set(title=f"Held-out problems ({suite}), 95 % interval", xlabel="step", ylabel="accuracy, %")
        left.set_ylim(0, 100)
        right.set_ylim(0, 100)
        right.legend(loc="lower right")
        return save_figure(figure, folder, "curves")
