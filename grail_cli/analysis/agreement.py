"""Do two readings of the same tokens agree: Spearman's rho, overlap of the top fifth, effective sample size.

Each number is taken inside one rollout, over its reasoning tokens, and then averaged over rollouts with a bootstrap
interval. A rollout in which either reading is constant has no rank correlation; it is left blank and counted.
"""

from __future__ import annotations

import numpy as np

from .bootstrap import interval
from .records import Scored, of_sign

TOP_SHARE = 0.2


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation with averaged ties; NaN for fewer than two tokens or a constant reading."""
    from scipy.stats import rankdata

    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def top_overlap(a: np.ndarray, b: np.ndarray, share: float = TOP_SHARE) -> float:
    """Share of the top `share` tokens by `a` that are also among the top by `b`; chance is `share` itself.

    NaN when a reading is constant: its top is arbitrary. Ties at the edge go to the earlier token.
    """
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    k = max(1, round(share * len(a)))
    return len(set(top_indices(a, k)) & set(top_indices(b, k))) / k


def top_indices(values: np.ndarray, k: int) -> list[int]:
    """Indices of the k largest values, largest first; ties go to the earlier token."""
    return np.argsort(-np.asarray(values, dtype=np.float64), kind="stable")[:k].tolist()


def effective_share(weights: np.ndarray) -> float:
    """Effective sample size over n: (sum w)^2 / (n sum w^2) = 1 / (1 + cv^2); 1 for equal weights."""
    w = np.asarray(weights, dtype=np.float64)
    square = float((w * w).sum())
    return float(w.sum() ** 2 / (len(w) * square)) if square > 0 else float("nan")


def companions(one: Scored) -> dict[str, np.ndarray]:
    """The plain explanations that a weight is held against, over the reasoning tokens of one rollout, (R,) each."""
    n = one.reasoning
    t = np.arange(n, dtype=np.float64)
    readings = {"position": t, "distance from the centre": np.abs(t - (n - 1) / 2)}
    if one.entropy is not None:
        readings["entropy"] = one.entropy[:n]
    if one.logprob is not None:
        readings["-log p"] = -one.logprob[:n]
    return readings


def agreement_table(scored: list[Scored], *, draws: int, seed: int) -> list[dict]:
    """Weight against entropy, -log p, position and distance from the centre, for all, correct and wrong rollouts."""
    rows = []
    for sign in ("all", "correct", "wrong"):
        chosen = [s for s in of_sign(scored, sign) if s.reweighted]
        for name in dict.fromkeys(n for s in chosen for n in companions(s)):
            pairs = [(s.weights[:s.reasoning], companions(s)[name]) for s in chosen if name in companions(s)]
            rows.append({"reading": name, "sign": sign, **_pair_row(pairs, draws, seed)})
    return rows


def compare_table(by_method: dict[str, list[Scored]], *, draws: int, seed: int) -> list[dict]:
    """Every pair of methods on the same rollouts, weights over the reasoning tokens; the lists are aligned by place."""
    names, rows = list(by_method), []
    for i, first in enumerate(names):
        for second in names[i + 1:]:
            pairs = [(a.weights[:a.reasoning], b.weights[:b.reasoning])
                     for a, b in zip(by_method[first], by_method[second], strict=True) if a.reasoning]
            rows.append({"first": first, "second": second, **_pair_row(pairs, draws, seed)})
    return rows


def method_table(by_method: dict[str, list[Scored]], *, draws: int, seed: int) -> list[dict]:
    """Effective sample size, spread and largest weight of every method over the reasoning tokens."""
    rows = []
    for name, scored in by_method.items():
        weights = [s.weights[:s.reasoning] for s in scored if s.reasoning]
        for quantity, values in (("effective sample size / n", [effective_share(w) for w in weights]),
                                 ("sd", [float(np.std(w)) for w in weights]),
                                 ("largest", [float(np.max(w)) for w in weights])):
            mean, low, high = interval(values, draws, seed)
            rows.append({"method": name, "quantity": quantity, "mean": mean, "low": low, "high": high,
                         "rollouts": int(np.isfinite(values).sum())})
    return rows


def _pair_row(pairs: list[tuple[np.ndarray, np.ndarray]], draws: int, seed: int) -> dict:
    rho = [spearman(a, b) for a, b in pairs]
    mean, low, high = interval(rho, draws, seed)
    over, over_low, over_high = interval([top_overlap(a, b) for a, b in pairs], draws, seed)
    return {"spearman": mean, "spearman_low": low, "spearman_high": high, "top20_overlap": over,
            "top20_low": over_low, "top20_high": over_high, "rollouts": int(np.isfinite(rho).sum()),
            "blank": int(len(rho) - np.isfinite(rho).sum())}
