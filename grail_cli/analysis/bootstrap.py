"""Intervals that resample rollouts: tokens of one rollout are not independent, so they are never resampled.

A single rollout has no interval: its bounds are NaN (shown blank), not a band of width zero.
"""

import numpy as np

LEVEL = 0.95


def resampled_counts(rollouts: int, draws: int, seed: int) -> np.ndarray:
    """How often each rollout appears in each bootstrap sample, shape (draws, rollouts), rows sum to `rollouts`."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(rollouts, np.full(rollouts, 1 / rollouts), size=draws).astype(np.float64)


def mean_over_rollouts(values: np.ndarray, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over axis 0 of (rollouts, columns), NaN left out, with the 95 % percentile bootstrap interval.

    Returns mean, low, high, each (columns,). Bounds are NaN in columns that fewer than two rollouts fill.
    """
    values = np.asarray(values, dtype=np.float64)
    filled = np.isfinite(values)
    n = filled.sum(axis=0)
    total = np.where(filled, values, 0.0).sum(axis=0)
    mean = np.divide(total, n, out=np.full(values.shape[1], np.nan), where=n > 0)
    if len(values) < 2 or not draws:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    low, high = _bounds(_resampled_means(values, draws, seed))
    few = n < 2
    return mean, np.where(few, np.nan, low), np.where(few, np.nan, high)


def difference_over_rollouts(first: np.ndarray, second: np.ndarray, draws: int, seed: int
                             ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of `first` minus mean of `second`, two independent sets of rollouts, with its interval, each (columns,)."""
    a, _, _ = mean_over_rollouts(first, 0, seed)
    b, _, _ = mean_over_rollouts(second, 0, seed)
    if len(first) < 2 or len(second) < 2 or not draws:
        return a - b, np.full_like(a, np.nan), np.full_like(a, np.nan)
    low, high = _bounds(_resampled_means(first, draws, seed) - _resampled_means(second, draws, seed + 1))
    few = (np.isfinite(first).sum(axis=0) < 2) | (np.isfinite(second).sum(axis=0) < 2)
    return a - b, np.where(few, np.nan, low), np.where(few, np.nan, high)


def interval(values: list[float] | np.ndarray, draws: int, seed: int) -> tuple[float, float, float]:
    """Mean and bounds of one number a rollout; NaN values are left out."""
    kept = np.asarray([v for v in values if np.isfinite(v)], dtype=np.float64)
    if not len(kept):
        return float("nan"), float("nan"), float("nan")
    mean, low, high = mean_over_rollouts(kept[:, None], draws, seed)
    return float(mean[0]), float(low[0]), float(high[0])


def _resampled_means(values: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """(draws, columns); a draw without any value in a column gives NaN there."""
    counts = resampled_counts(len(values), draws, seed)
    filled = np.isfinite(values)
    n = counts @ filled.astype(np.float64)
    return np.divide(counts @ np.where(filled, values, 0.0), n, out=np.full_like(n, np.nan), where=n > 0)


def _bounds(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bounds = np.full((2, means.shape[1]), np.nan)
    some = np.isfinite(means).any(axis=0)
    tail = 50 * (1 - LEVEL)
    if some.any():
        bounds[:, some] = np.nanpercentile(means[:, some], [tail, 100 - tail], axis=0)
    return bounds[0], bounds[1]
