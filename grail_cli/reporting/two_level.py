"""Intervals over seeds and problems at once: both are samples of what one would like to know about.

A table has a row a seed and a column a problem. Rows and columns are drawn with replacement, independently (the
bootstrap of a crossed design, Owen 2007), and the deviations of rows and columns are first stretched by
sqrt(S / (S - 1)) and sqrt(P / (P - 1)), since a percentile interval of eight rows would else be too short.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..evaluation.stats import LEVEL, permutation_p, smallest_detectable

if TYPE_CHECKING:
    import numpy as np

DRAWS = 10_000


class Interval(NamedTuple):
    """A mean with its 95 % interval; no bounds where there are fewer than two seeds."""

    value: float
    low: float | None
    high: float | None


class Contrast(NamedTuple):
    """One arm minus another over the seeds that both have, paired by seed and problem.

    p: two-sided, exact, the signs of the seeds' differences free. detectable: the smallest true difference that so
    many seeds would show four times in five; None where every seed differs alike. same: every problem of every seed is.
    """

    seeds: int
    difference: Interval
    p: float | None
    detectable: float | None
    same: bool


def two_level(table: "np.ndarray", draws: int = DRAWS, seed: int = 0) -> Interval:
    """Mean of a table (S seeds, P problems) and its interval. Raises ValueError for an empty table."""
    import numpy as np

    table = np.asarray(table, dtype=float)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"a table of seeds and problems is needed, not one of shape {table.shape}")
    seeds, problems = table.shape
    mean = float(table.mean())
    if seeds < 2 or problems < 2:
        return Interval(mean, None, None)
    rows = table.mean(axis=1, keepdims=True) - mean
    columns = table.mean(axis=0, keepdims=True) - mean
    stretched = (table + (np.sqrt(seeds / (seeds - 1)) - 1) * rows
                 + (np.sqrt(problems / (problems - 1)) - 1) * columns)
    generator = np.random.default_rng(seed)
    u = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds
    v = generator.multinomial(problems, np.full(problems, 1 / problems), size=draws) / problems
    means = ((u @ stretched) * v).sum(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean, float(low), float(high))


def contrast(ours: "np.ndarray", theirs: "np.ndarray") -> Contrast:
    """`ours` minus `theirs`, tables (S, P) of the same seeds and problems in the same order."""
    import numpy as np

    difference = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    seeds = len(difference)
    by_seed, same = difference.mean(axis=1), not difference.any()
    if seeds < 2:
        return Contrast(seeds, two_level(difference), None, None, same)
    se = float(by_seed.std(ddof=1) / np.sqrt(seeds))
    return Contrast(seeds, two_level(difference), sign_p(by_seed),
                    smallest_detectable(se, seeds - 1) if se > 1e-12 else None, same)


def sign_p(differences: Sequence[float]) -> float:
    """Two-sided p of a mean difference over seeds when each one's sign is free; exact up to 16 seeds."""
    import numpy as np

    differences = np.asarray(differences, dtype=float)
    if len(differences) > 16:
        return permutation_p(list(differences))
    signs = 1 - 2 * ((np.arange(2 ** len(differences))[:, None] >> np.arange(len(differences))) & 1)
    observed = abs(differences.sum())
    return float((np.abs(signs @ differences) >= observed - 1e-12).mean())
