"""Error bars that hold: intervals over problems, paired differences with exact p, Holm, what a suite can
show.

Problems are the unit: the samples of a problem are averaged first, so that n samples never pass for n problems
(clustered standard error). All functions are pure; draws come from a generator of their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

LEVEL = 0.95
DRAWS = 10_000
_EXACT_RANGE = 2_000_000  # widest range of sums for which the permutation distribution is computed exactly


class Estimate(NamedTuple):
    """A mean over problems: standard error and interval are None with fewer than two problems."""

    value: float
    se: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Paired:
    """Mean difference of two models over their common problems (first minus second).

    p: two-sided permutation of signs. detectable: the smallest true difference shown with power 0.8 at this
    size.
    """

    problems: int
    value: float
    se: float | None
    low: float | None
    high: float | None
    p: float
    detectable: float | None


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Mean of one value a problem, standard error of the mean, Student t interval. ValueError when empty."""
    n = len(values)
    if n == 0:
        raise ValueError("no problems")
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, None, None)
    se = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = _t_quantile(0.5 + level / 2, n - 1) * se
    return Estimate(mean, se, mean - half, mean + half)


def share_interval(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """`mean_interval` of shares in 0..1, kept inside them. Where all are 0 or all are 1 the spread says
    nothing, and the exact (Clopper and Pearson) bound for so many problems stands in.
    """
    estimate = mean_interval(values, level)
    if estimate.se == 0 and estimate.value in (0.0, 1.0):
        far = ((1 - level) / 2) ** (1 / len(values))
        return estimate._replace(low=far if estimate.value else 0.0, high=1.0 if estimate.value else 1 - far)
    if estimate.low is None:
        return estimate
    return estimate._replace(low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def bootstrap_interval(
    values: Sequence[float], level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap of the mean over problems: (low, high). Short at 30 problems; the t interval is not."""
    import numpy as np

    values = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    rows = max(1, 2_000_000 // max(1, len(values)))
    means = np.concatenate(
        [
            values[rng.integers(0, len(values), (min(rows, draws - done), len(values)))].mean(axis=1)
            for done in range(0, draws, rows)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def average(
    estimates: Sequence[Estimate],
    weights: Sequence[float] | None = None,
    level: float = LEVEL,
    counts: Sequence[int] | None = None,
) -> Estimate:
    """Average over suites with its own interval: variances add; not cut to what is possible.

    counts: problems a suite; then the quantile is Student's with the degrees of freedom of Welch and Satterthwaite, else
    the normal one. A suite that is all wrong or all right shows no spread, but is not known exactly: its variance is read
    off its exact bound. An estimate without a standard error (one problem) leaves the average without one.
    """
    weights = [1.0] * len(estimates) if weights is None else list(weights)
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    value = math.fsum(share * estimate.value for share, estimate in zip(shares, estimates, strict=True))
    if any(estimate.se is None for estimate in estimates):
        return Estimate(value, None, None, None)
    variances = [(share * _spread(estimate, level)) ** 2 for share, estimate in zip(shares, estimates, strict=True)]
    variance = math.fsum(variances)
    quantile = _z_quantile(0.5 + level / 2)
    if counts is not None and variance > 0:
        freedom = variance**2 / math.fsum(v**2 / (count - 1) for v, count in zip(variances, counts, strict=True))
        quantile = _t_quantile(0.5 + level / 2, freedom)
    half = quantile * math.sqrt(variance)
    return Estimate(value, math.sqrt(variance), value - half, value + half)


def _spread(estimate: Estimate, level: float) -> float:
    """The standard error, or for one of zero the normal one that reaches as far as the exact bound."""
    if estimate.se or estimate.low is None:
        return estimate.se
    return max(estimate.high - estimate.value, estimate.value - estimate.low) / _z_quantile(0.5 + level / 2)


def paired_difference(
    ours: Sequence[Fraction | float],
    theirs: Sequence[Fraction | float],
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> Paired:
    """Difference of two models problem by problem; one accuracy a problem each, in the same order.

    Interval: percentile bootstrap over problems from 50 problems on, Student t below. p: exact when the values are
    Fractions of small denominators (shares of samples), else by 100,000 draws of signs.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError("the two models need the same problems, at least one")
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    values = [float(d) for d in differences]
    estimate = mean_interval(values, level)
    low, high = estimate.low, estimate.high
    if len(values) >= 50:
        low, high = bootstrap_interval(values, level, draws, seed)
    if not estimate.se:  # no problem differs from another: how far the truth may lie cannot be told
        return Paired(len(values), estimate.value, None, None, None, permutation_p(differences, seed=seed), None)
    detectable = smallest_detectable(estimate.se, len(values) - 1)
    return Paired(
        len(values), estimate.value, estimate.se, low, high, permutation_p(differences, seed=seed), detectable
    )


def permutation_p(differences: Sequence[Fraction | float], seed: int = 0) -> float:
    """Two-sided p of the mean difference when every problem's sign is free: P(|sum of +-d| >= |sum of d|)."""
    import numpy as np

    nonzero = [d for d in differences if d != 0]
    if not nonzero:
        return 1.0
    if all(isinstance(d, Fraction | int) for d in nonzero):
        scale = math.lcm(*[Fraction(d).denominator for d in nonzero])
        whole = [abs(int(d * scale)) for d in nonzero]
        if sum(whole) * len(whole) <= 200 * _EXACT_RANGE and sum(whole) <= _EXACT_RANGE:
            return _exact_p(whole, abs(int(sum(nonzero) * scale)))
    values = np.abs(np.array([float(d) for d in nonzero]))
    observed = abs(math.fsum(float(d) for d in nonzero)) * (1 - 1e-12)
    rng, draws, hits = np.random.default_rng(seed), 100_000, 0
    for done in range(0, draws, 1000):
        signs = rng.integers(0, 2, (min(1000, draws - done), len(values))) * 2 - 1
        hits += int((np.abs(signs @ values) >= observed).sum())
    return (hits + 1) / (draws + 1)


def _exact_p(sizes: list[int], observed: int) -> float:
    """The distribution of the sum of +-sizes, one problem after the other: index s is the sum plus the total."""
    import numpy as np

    total = sum(sizes)
    chances = np.zeros(2 * total + 1)
    chances[total] = 1.0
    for size in sizes:
        spread = np.zeros_like(chances)
        spread[size:] += chances[: len(chances) - size] / 2
        spread[: len(chances) - size] += chances[size:] / 2
        chances = spread
    sums = np.abs(np.arange(-total, total + 1))
    return float(min(1.0, chances[sums >= observed].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: the family-wise error over several suites or models
    stays at 5 %.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def smallest_detectable(se: float, df: int, power: float = 0.8, level: float = LEVEL) -> float:
    """The true difference that a two-sided test at 1 - level shows with this power, for a standard error."""
    return (_t_quantile(0.5 + level / 2, df) + _t_quantile(power, df)) * se


def _t_quantile(q: float, df: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, q))


def _z_quantile(q: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(q)
