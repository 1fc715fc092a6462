"""The tables of an analysis: what the weights do, how strong the signal is, where it sits, and on which tokens.

Every statistic is taken inside a rollout, over its reasoning tokens unless a region is named, and averaged over
rollouts with a bootstrap interval. Rows are flat dicts (CSV and JSON alike); a blank is NaN here and null on disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .agreement import effective_share
from .bootstrap import interval
from .classes import SENTENCE_CLASSES, TOKEN_CLASSES, sentence_classes, token_class
from .records import SIGNS, Scored, of_sign

FLAT_SIGNAL = 0.3   # sd of the raw log score under which standardising amplifies noise
MIN_COUNT = 20      # tokens of a type or class below which no mean is printed


def row(scored_values: list[float], *, draws: int, seed: int, **names) -> dict:
    """One line of a long table: mean over rollouts with its interval."""
    mean, low, high = interval(scored_values, draws, seed)
    return {**names, "mean": mean, "low": low, "high": high, "rollouts": int(np.isfinite(scored_values).sum())}


def weight_quantities(weights: np.ndarray, w_min: float, w_max: float) -> dict[str, float]:
    """What is said about the weights of one rollout, (n,) of them; shares and masses are fractions."""
    w = np.sort(np.asarray(weights, dtype=np.float64))
    n, total = len(w), float(w.sum())
    p5, p50, p95 = np.percentile(w, [5, 50, 95])
    gini = float((2 * np.arange(1, n + 1) - n - 1) @ w / (n * total)) if total else float("nan")
    return {"mean": total / n, "sd": float(w.std()), "p5": float(p5), "p50": float(p50), "p95": float(p95),
            "share at w_min": float(np.mean(w <= w_min * (1 + 1e-6))),
            "share at w_max": float(np.mean(w >= w_max * (1 - 1e-6))),
            "effective sample size / n": effective_share(w),
            "mass of the top 10 %": top_mass(w, 0.1), "mass of the top 20 %": top_mass(w, 0.2), "Gini": gini}


def top_mass(values: np.ndarray, share: float) -> float:
    """Share of the sum that the largest `share` of the values hold (at least one value)."""
    w = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    total = w.sum()
    return float(w[:max(1, round(share * len(w)))].sum() / total) if total > 0 else float("nan")


def weight_table(scored: list[Scored], *, w_min: float, w_max: float, draws: int, seed: int) -> list[dict]:
    """Weights of the reweighted rollouts over the reasoning, and their mean in every region, by sign."""
    rows = []
    for sign in SIGNS:
        chosen = [s for s in of_sign(scored, sign) if s.reweighted]
        each = [weight_quantities(s.weights[:s.reasoning], w_min, w_max) for s in chosen]
        for quantity in (each[0] if each else {}):
            rows.append(row([e[quantity] for e in each], draws=draws, seed=seed, sign=sign, quantity=quantity))
        for region in ("content", "boundary", "post"):
            means = [float(np.mean(s.weights[list(getattr(s, region))])) for s in chosen if getattr(s, region)]
            if means:
                rows.append(row(means, draws=draws, seed=seed, sign=sign, quantity=f"mean, {region} tokens"))
    return rows


def log_scores(one: Scored) -> np.ndarray:
    """log(s + 1e-8) of the reasoning tokens, (R,)."""
    return np.log(np.asarray(one.scores[:one.reasoning], dtype=np.float64) + 1e-8)


def signal_table(scored: list[Scored], *, draws: int, seed: int) -> list[dict]:
    """Contrast of the raw score beside the spread of the weights; a flat score is amplified into full-range weights."""
    rows = []
    for sign in SIGNS:
        chosen = of_sign(scored, sign)
        if not chosen:
            continue
        raw = [float(log_scores(s).std()) for s in chosen]
        rows.append(row(raw, draws=draws, seed=seed, sign=sign, quantity="sd of log score"))
        rows.append(row([float(s.weights[:s.reasoning].std()) for s in chosen if s.reweighted],
                        draws=draws, seed=seed, sign=sign, quantity="sd of weights"))
        rows.append(row([float(r < FLAT_SIGNAL) for r in raw], draws=draws, seed=seed, sign=sign,
                        quantity=f"share of rollouts with sd of log score < {FLAT_SIGNAL}"))
    return rows


def concentration_table(scored: list[Scored], *, draws: int, seed: int) -> list[dict]:
    """Where the raw score of the reasoning sits: ends, token classes, and how peaked it is."""
    rows = []
    for sign in SIGNS:
        chosen = [s for s in of_sign(scored, sign) if s.scores[:s.reasoning].sum() > 0]
        each: dict[str, list[float]] = defaultdict(list)
        for s in chosen:
            scores = np.asarray(s.scores[:s.reasoning], dtype=np.float64)
            total, kinds = scores.sum(), np.array([token_class(t) for t in s.tokens[:s.reasoning]])
            each["share of the first token"].append(scores[0] / total)
            each["share of the first 5 tokens"].append(scores[:5].sum() / total)
            each["share of the last 10 tokens"].append(scores[-10:].sum() / total)
            for kind in TOKEN_CLASSES:
                each[f"share of {kind} tokens"].append(scores[kinds == kind].sum() / total)
            middle = np.median(scores)
            each["max / median"].append(scores.max() / middle if middle > 0 else float("nan"))
        rows += [row(values, draws=draws, seed=seed, sign=sign, quantity=q) for q, values in each.items()]
    return rows


def class_table(scored: list[Scored], *, draws: int, seed: int) -> list[dict]:
    """Mean z of the log score by token class and by sentence class; z within the reasoning of each rollout."""
    rows = []
    for kind, names in (("token", TOKEN_CLASSES), ("sentence", SENTENCE_CLASSES)):
        for sign in SIGNS:
            means, counts = defaultdict(list), defaultdict(int)
            for s in of_sign(scored, sign):
                z = standardised(log_scores(s))
                tokens = s.tokens[:s.reasoning]
                classes = np.array([token_class(t) for t in tokens] if kind == "token" else sentence_classes(tokens))
                for name in names:
                    inside = z[classes == name]
                    if len(inside):
                        means[name].append(float(inside.mean()))
                        counts[name] += len(inside)
            rows += [{**row(means[n], draws=draws, seed=seed, kind=kind, sign=sign, quantity=n), "tokens": counts[n]}
                     for n in names if counts[n] >= MIN_COUNT]
    return rows


def standardised(values: np.ndarray) -> np.ndarray:
    """z = (x - mean) / sqrt(variance + 1e-8), as in the GRAIL rule."""
    return (values - values.mean()) / np.sqrt(values.var() + 1e-8) if len(values) else values


def token_type_table(scored: list[Scored], *, top: int = 15, min_count: int = MIN_COUNT) -> list[dict]:
    """The token texts of highest and lowest mean weight in the reasoning of reweighted rollouts, with a context."""
    weights: dict[str, list[float]] = defaultdict(list)
    seen_in: dict[str, set[str]] = defaultdict(set)
    context: dict[str, str] = {}
    for s in of_sign(scored, "all"):
        if not s.reweighted:
            continue
        for t in range(s.reasoning):
            text = s.tokens[t]
            weights[text].append(float(s.weights[t]))
            seen_in[text].add(s.rollout.id)
            if text not in context:
                context[text] = "".join(s.tokens[max(0, t - 6):t]) + "[" + text + "]" + "".join(s.tokens[t + 1:t + 5])
    means = sorted(((float(np.mean(v)), text) for text, v in weights.items() if len(v) >= min_count), reverse=True)
    chosen = [("highest", m) for m in means[:top]] + [("lowest", m) for m in means[::-1][:top]]
    return [{"end": end, "token": text, "mean_weight": mean, "count": len(weights[text]),
             "rollouts": len(seen_in[text]), "context": context[text]} for end, (mean, text) in chosen]


TAIL_LENGTHS = (0, 1, 4, 16, 64)


def with_tail(one: Scored, tokens: int) -> Scored:
    """The rollout as if `tokens` tokens followed its answer: exact, since they cannot influence it and score 0."""
    kept = (one.answer or (len(one.scores) - 1,))[-1] + 1
    scores = np.concatenate([one.scores[:kept], np.zeros(tokens)])
    return replace(one, scores=scores, post=tuple(range(kept, kept + tokens)))


def tail_lengths(scored: list[Scored], spread: Callable[[Scored, str], np.ndarray], *, draws: int, seed: int
                 ) -> list[dict]:
    """Spread of the reasoning weights of all rollouts, recomputed for several tail lengths under each rule.

    spread: (rollout, rule of statistics) -> weights (T,).
    """
    rows = []
    for tokens in TAIL_LENGTHS:
        changed = [with_tail(s, tokens) for s in scored if s.reasoning]
        for rule in ("completion", "reasoning"):
            kept = [spread(one, rule)[:one.reasoning] for one in changed]
            rows.append({"post_tokens": str(tokens), "stats": rule,
                         **row([float(w.std()) for w in kept], draws=draws, seed=seed, quantity="sd of weights"),
                         "effective_share": float(np.mean([effective_share(w) for w in kept])) if kept else None})
    return rows


def tail_groups(scored: list[Scored], spreads: dict[str, list[np.ndarray]], *, draws: int, seed: int,
                edges: tuple[int, ...] = (0, 1, 2, 5, 17)) -> list[dict]:
    """Spread of the reasoning weights by tail length (post tokens), under each rule of statistics.

    spreads: rule -> weights (T,) a rollout, aligned with `scored`. Groups are [edge, next edge), the last one open.
    """
    rows = []
    for low, high in zip(edges, (*edges[1:], None), strict=True):
        inside = [i for i, s in enumerate(scored)
                  if s.reasoning and len(s.post) >= low and (high is None or len(s.post) < high)]
        if not inside:
            continue
        name = f"{low}+" if high is None else str(low) if high == low + 1 else f"{low}-{high - 1}"
        for rule, weights in spreads.items():
            kept = [weights[i][:scored[i].reasoning] for i in inside]
            rows.append({"post_tokens": name, "stats": rule,
                         **row([float(w.std()) for w in kept], draws=draws, seed=seed, quantity="sd of weights"),
                         "effective_share": float(np.mean([effective_share(w) for w in kept])),
                         "mean_post": float(np.mean([len(scored[i].post) for i in inside])),
                         "mean_reasoning": float(np.mean([scored[i].reasoning for i in inside]))})
    return rows
