"""What a report holds, free of any file format: models, suites, scores, intervals, differences.

`collect.py` and `tables.py` fill it, the writers (`xlsx.py`, `text.py`, `html.py`, `curves.py`) only read it.
Shares and their differences are fractions of one here; writers turn them into per cent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

AVERAGE, WEIGHTED = "average", "weighted_average"
SIGNIFICANT = 0.05
STARS = ((0.001, "***"), (0.01, "**"), (SIGNIFICANT, "*"))


class Sample(NamedTuple):
    """One completion and its verdict (correct, wrong, no_box, unparseable_gold, timeout, error)."""

    text: str
    pred: str | None
    tokens: int | None
    verdict: str
    rule: str
    finish: str


@dataclass(frozen=True)
class Problem:
    """One problem of a suite with a model's samples."""

    id: str
    question: str
    gold: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class ModelResults:
    """One model's samples: suites in the order found, and the settings that made them."""

    label: str
    folder: str
    suites: Mapping[str, tuple[Problem, ...]]
    settings: Mapping[str, object] = field(default_factory=dict)  # dotted key -> value, from the manifest
    summary: Mapping[str, object] = field(default_factory=dict)  # eval_summary.json as found
    lines: Mapping[str, tuple[dict, ...]] = field(
        default_factory=dict
    )  # the graded result lines, in the order of `suites`
    marked: frozenset[str] = frozenset()  # suites graded against the text of a Python list
    run: str = ""  # the run's name, when the label says which step of it this is
    step: int | None = None


class Estimate(NamedTuple):
    """A number with its 95 % interval, cut to what is possible; None where no interval can be told."""

    value: float
    low: float | None = None
    high: float | None = None
    se: float | None = None  # standard error
    margin: float | None = None  # half the interval's width where the value is its middle; else None

    @property
    def spread(self) -> str:
        """The interval as a reader may copy it, in per cent: `±5.1` around the middle, else `(0.0..60.2)`."""
        if self.margin is not None:
            return f"±{100 * self.margin:.1f}"
        return "" if self.low is None else f"({100 * self.low:.1f}..{100 * self.high:.1f})"


@dataclass(frozen=True)
class Score:
    """One model on one suite, or its average over the suites (counts are then sums)."""

    problems: int
    fewest: int  # samples a problem
    most: int
    k: int  # of pass@k: the fewest settled samples that any model has on a problem; 0 for an average
    acc: Estimate | None
    passed: Estimate | None  # pass@k
    majority: float | None
    tokens: float | None
    samples: int
    truncated: int
    no_box: int
    unscored: int


@dataclass(frozen=True)
class Difference:
    """A model's accuracy minus the baseline's on the problems that both have, paired by problem."""

    common: int
    estimate: Estimate
    p: float
    p_adjusted: float  # Holm, over the suites of this model
    detectable: float | None  # the smallest true difference that the suite would show four times in five

    @property
    def stars(self) -> str:
        """`*`, `**` or `***` for an adjusted p below 0.05, 0.01, 0.001; else nothing."""
        return next((stars for bound, stars in STARS if self.p_adjusted < bound), "")

    @property
    def words(self) -> str:
        """`better`, `worse` or `tied`."""
        if self.p_adjusted >= SIGNIFICANT:
            return "tied"
        return "better" if self.estimate.value > 0 else "worse"


@dataclass(frozen=True)
class Report:
    """All that a writer needs. Keys of scores and differences: (model label, suite), averages included."""

    models: tuple[ModelResults, ...]
    suites: tuple[str, ...]
    scores: Mapping[tuple[str, str], Score]
    differences: Mapping[tuple[str, str], Difference]
    baseline: str | None
    notes: tuple[str, ...]

    def noted(self, notes: Sequence[str]) -> "Report":
        """The same report with these notes before its own."""
        return replace(self, notes=(*notes, *self.notes))

    @property
    def labels(self) -> list[str]:
        return [model.label for model in self.models]

    @property
    def columns(self) -> list[str]:
        """The suites, then the averages where a model has one."""
        return [
            *self.suites,
            *(name for name in (AVERAGE, WEIGHTED) if any(key[1] == name for key in self.scores)),
        ]

    def score(self, label: str, suite: str) -> Score | None:
        return self.scores.get((label, suite))

    def pass_name(self, suite: str) -> str:
        """`pass@3`; `pass@k` over suites or models that differ in k."""
        ks = {score.k for score in self._of(suite) if score.k}
        return f"pass@{ks.pop()}" if len(ks) == 1 else "pass@k"

    def acc_name(self, suite: str) -> str:
        """`acc@3`, `acc@3-16` where samples a problem differ, `acc@n` where no model has the suite."""
        counts = [score.most for score in self._of(suite)]
        if not counts:
            return "acc@n"
        return f"acc@{max(counts)}" if len(set(counts)) == 1 else f"acc@{min(counts)}-{max(counts)}"

    def _of(self, suite: str) -> list[Score]:
        names = self.suites if suite in (AVERAGE, WEIGHTED) else [suite]
        return [score for (_, name), score in self.scores.items() if name in names]

    def best(self, suite: str, what: str) -> set[str]:
        """Labels with the highest `acc` or `passed` of a column; none when fewer than two models have it or all tie."""
        values = {
            label: getattr(score, what).value
            for label in self.labels
            if (score := self.score(label, suite)) and getattr(score, what)
        }
        if len(values) < 2 or max(values.values()) - min(values.values()) < 1e-12:
            return set()
        top = max(values.values())
        return {label for label, value in values.items() if abs(value - top) < 1e-12}

    def mark(self, label: str, suite: str) -> str:
        """What stands behind an accuracy: stars against the baseline, a dagger for list-text golds."""
        difference = self.differences.get((label, suite))
        listed = any(suite in model.marked for model in self.models if model.label == label)
        return (difference.stars if difference else "") + ("†" if listed else "")


def title_of(suite: str) -> str:
    """A column's heading: `Average` and `Weighted average` for the averages, else the suite's name."""
    return {AVERAGE: "Average", WEIGHTED: "Weighted average"}.get(suite, suite)


def per_cent(share: float) -> float:
    """A fraction of one in per cent."""
    return 100.0 * share
