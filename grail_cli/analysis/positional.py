"""Weight and score by position in the reasoning: our profiles over rollouts, and the reference's pooled summary.

Specification, section 7: reasoning tokens t = 0 .. R-1 before the answer, position t / (R - 1), equal bins. The
reference pools all tokens of a bin, so that a long rollout counts more than a short one and its standard error takes
tokens for independent. Ours averages within a rollout first and resamples rollouts; both are written.
"""

from __future__ import annotations

import numpy as np

from .bootstrap import difference_over_rollouts, mean_over_rollouts
from .records import SIGNS, Scored, of_sign

QUANTITIES = ("weight", "score")


def bins_of(reasoning: int, bins: int) -> np.ndarray:
    """Bin of every reasoning token, shape (R,): floor(bins * t / (R - 1)), the last token in the last bin.

    In whole numbers, so that a position on an edge never falls to the wrong side; a single token is in bin 0.
    """
    t = np.arange(reasoning)
    if reasoning <= 1:
        return np.zeros(reasoning, dtype=np.int64)
    return np.minimum(t * bins // (reasoning - 1), bins - 1)


def reasoning_values(one: Scored, quantity: str, drop_first: int = 0, drop_last: int = 0) -> np.ndarray:
    """Weights or raw scores of the reasoning tokens that are kept; positions are counted over those kept."""
    values = one.weights if quantity == "weight" else one.scores
    stop = max(one.reasoning - drop_last, 0)
    return np.asarray(values[drop_first:stop], dtype=np.float64)


def rollout_profile(values: np.ndarray, bins: int) -> np.ndarray:
    """Mean a bin of one rollout, shape (bins,); NaN where it has no token."""
    where = bins_of(len(values), bins)
    n = np.bincount(where, minlength=bins)
    total = np.bincount(where, weights=values, minlength=bins)
    return np.divide(total, n, out=np.full(bins, np.nan), where=n > 0)


def pooled_profile(rollouts: list[np.ndarray], bins: int) -> dict[str, list]:
    """The reference's numbers: mean, population standard deviation and standard error over all tokens of a bin."""
    where = np.concatenate([bins_of(len(v), bins) for v in rollouts]) if rollouts else np.zeros(0, dtype=np.int64)
    values = np.concatenate(rollouts) if rollouts else np.zeros(0)
    mean, std, sem, count = [], [], [], []
    for b in range(bins):
        inside = values[where == b]
        count.append(len(inside))
        mean.append(float(inside.mean()) if len(inside) else None)
        std.append(float(inside.std()) if len(inside) else None)
        sem.append(float(inside.std() / np.sqrt(len(inside))) if len(inside) else None)
    return {"mean": mean, "std": std, "sem": sem, "count": count}


def reference_summary(scored: list[Scored], *, step: int | None, bins: int) -> dict:
    """The document `checkpoint_<step>_pos_summary.json`: pooled numbers of weight and raw score, by sign."""
    doc: dict = {"step": step, "n_bins": bins, "bin_centers": [(b + 0.5) / bins for b in range(bins)],
                 "n_samples": {sign: len(of_sign(scored, sign)) for sign in SIGNS}}
    for quantity in QUANTITIES:
        doc[quantity] = {sign: pooled_profile([reasoning_values(s, quantity) for s in of_sign(scored, sign)], bins)
                         for sign in SIGNS}
    return doc


def positional_summary(scored: list[Scored], *, bins: int, drop_first: int, drop_last: int, draws: int, seed: int
                       ) -> dict:
    """Profiles over rollouts with bootstrap intervals: {weight|log_score: {all|correct|wrong|difference: {...}}}.

    Each profile has `mean`, `low`, `high` (bins each, null where blank) and `rollouts`, how many fill the bin;
    `difference` is correct minus wrong. Raw scores differ in scale between rollouts, so `log_score` is a geometric
    quantity: the mean over rollouts of the mean over tokens of log(s + 1e-8), in nats. Rollouts that were left out of
    reweighting are left out of `weight`, which they would only flatten (unless all were, as under grpo).
    """
    weighted = [s for s in scored if s.reweighted] or scored
    doc: dict = {"bins": bins, "bin_centers": [(b + 0.5) / bins for b in range(bins)],
                 "drop_first": drop_first, "drop_last": drop_last,
                 "rollouts": {sign: len(of_sign(weighted, sign)) for sign in SIGNS}}
    for quantity, chosen in zip(QUANTITIES, (weighted, scored), strict=True):
        matrices = {sign: profile_matrix(of_sign(chosen, sign), quantity, bins, drop_first, drop_last)
                    for sign in SIGNS}
        part = {sign: _profile(matrix, *mean_over_rollouts(matrix, draws, seed))
                for sign, matrix in matrices.items()}
        part["difference"] = _profile(None, *difference_over_rollouts(matrices["correct"], matrices["wrong"],
                                                                      draws, seed))
        doc["weight" if quantity == "weight" else "log_score"] = part
    return doc


def profile_matrix(scored: list[Scored], quantity: str, bins: int, drop_first: int, drop_last: int) -> np.ndarray:
    """(rollouts, bins); raw scores enter as log(s + 1e-8)."""
    rows = []
    for one in scored:
        values = reasoning_values(one, quantity, drop_first, drop_last)
        rows.append(rollout_profile(np.log(values + 1e-8) if quantity == "score" else values, bins))
    return np.array(rows).reshape(len(rows), bins)


def _profile(matrix: np.ndarray | None, mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, list]:
    doc = {"mean": blank(mean), "low": blank(low), "high": blank(high)}
    if matrix is not None:
        doc["rollouts"] = np.isfinite(matrix).sum(axis=0).tolist()
    return doc


def blank(values: np.ndarray) -> list[float | None]:
    """A list for JSON, in which NaN is null."""
    return [float(v) if np.isfinite(v) else None for v in values]
