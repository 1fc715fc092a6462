"""Scores of a suite from its graded samples: acc@n, pass@k for every k, maj@k, tokens, and what was not
counted.

Only settled samples count: a timeout, a grader's error or an unreadable gold is no wrong answer, it is listed. Where a
problem has fewer than k settled samples it is left out of pass@k, and the coverage says so; nothing is padded.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from .grade import UNSETTLED
from .majority import MOST, majority_curve
from .stats import Estimate, average, bootstrap_interval, share_interval

_SUBSETS = 200  # of k samples that maj@k walks over; more are counted instead


def pass_at_k(n: int, c: int, k: int) -> Fraction:
    """Chance that at least one of k samples out of n (c of them right) is right: 1 - C(n-c, k) / C(n, k)."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {c} right among {n}")
    return 1 - Fraction(math.comb(n - c, k), math.comb(n, k))


def majority_at_k(votes: Sequence[tuple[object, bool]], k: int) -> Fraction:
    """Chance that the most frequent answer among k of the votes is right; ties are broken by lot.

    votes: (class of equal answers or None for no answer, right) a sample. No answer is no vote; without any
    vote the problem is not solved. Exact: by walking over the subsets, or by counting them where they are many.
    """
    n = len(votes)
    if not 1 <= k <= n:
        raise ValueError(f"maj@{k} of {n} samples")
    if math.comb(n, k) > _SUBSETS:
        return Fraction(majority_curve(votes)[k - 1])
    subsets = itertools.combinations(range(n), k)
    total, count = Fraction(0), 0
    for subset in subsets:
        count += 1
        tally = Counter(votes[i][0] for i in subset if votes[i][0] is not None)
        if tally:
            most = max(tally.values())
            winners = [name for name, votes_ in tally.items() if votes_ == most]
            right = {votes[i][0] for i in subset if votes[i][1]}
            total += Fraction(sum(name in right for name in winners), len(winners))
    return total / count


def settled(line: Mapping) -> list[Mapping]:
    """The samples of a problem that have a verdict to count."""
    return [s for s in line["generated_solutions"] if s.get("verdict") not in UNSETTLED]


def problem_accuracy(line: Mapping) -> Fraction | None:
    """Share of a problem's settled samples that are right; None when none is settled."""
    samples = settled(line)
    return Fraction(sum(bool(s["correct"]) for s in samples), len(samples)) if samples else None


def suite_scores(lines: Sequence[Mapping], n: int) -> dict:
    """The summary of one suite from its result lines; n: samples a problem that were asked for.

    Keys of the reference (`samples` problems, `pass@n`, `acc@n`, `run_acc_mean`, `run_acc_std`, `avg_tokens`,
    `null_count`), then counts, intervals, pass@k and maj@k for every k. Shares are 0..1.
    """
    samples = [s for line in lines for s in line["generated_solutions"]]
    accuracies = [a for a in map(problem_accuracy, lines) if a is not None]
    estimate = share_interval([float(a) for a in accuracies]) if accuracies else None
    runs = _runs(lines, n)
    tokens = [s["completion_tokens"] for s in samples if s.get("completion_tokens") is not None]
    summary = {
        "samples": len(lines),
        f"pass@{n}": None,
        f"acc@{n}": _rounded(estimate.value) if estimate else None,
        "run_acc_mean": _rounded(math.fsum(runs) / len(runs)) if runs else None,
        "run_acc_std": _rounded(_population_std(runs)) if runs else None,
        "avg_tokens": _rounded(math.fsum(tokens) / len(tokens)) if tokens else None,
        "null_count": sum(s.get("pred_answer") is None for s in samples),
        "n": n,
        "completions": len(samples),
        "problems_scored": len(accuracies),
        "failed": n * len(lines) - len(samples),
        "truncated": sum(s.get("finish_reason") == "length" for s in samples),
        "empty": sum(not (s.get("solution") or "").strip() for s in samples),
        "unsettled": sum(s.get("verdict") in UNSETTLED for s in samples),
        "verdicts": dict(sorted(Counter(s.get("verdict") or "ungraded" for s in samples).items())),
    }
    if estimate:
        summary["acc"] = interval_fields(estimate, [float(a) for a in accuracies])
        missing = n * len(lines) - sum(len(settled(line)) for line in lines)
        right = sum(bool(s["correct"]) for line in lines for s in settled(line))
        if missing:  # what the accuracy would be were they all wrong, all right
            summary["acc_bounds"] = [
                _rounded(right / (n * len(lines))),
                _rounded((right + missing) / (n * len(lines))),
            ]
    for k in range(1, n + 1):
        counts = [(len(settled(line)), sum(bool(s["correct"]) for s in settled(line))) for line in lines]
        covered = [(m, c) for m, c in counts if m >= k]
        summary[f"pass@{k}"] = (
            _rounded(float(sum(pass_at_k(m, c, k) for m, c in covered) / len(covered))) if covered else None
        )
        if len(covered) < len(lines):
            summary.setdefault("coverage", {})[f"pass@{k}"] = len(covered)
        if k in majority_sizes(n):
            votes = [[(s.get("answer_class"), bool(s["correct"])) for s in settled(line)] for line in lines]
            votes = [v for v in votes if len(v) >= k]
            summary[f"maj@{k}"] = (
                _rounded(float(sum(majority_at_k(v, k) for v in votes) / len(votes))) if votes else None
            )
    return summary


def majority_sizes(n: int) -> list[int]:
    """The k of maj@k: all up to 8, then powers of two, and n; none beyond the votes that can be counted."""
    if n > MOST:
        return []
    return sorted({k for k in range(1, n + 1) if k <= 8 or k & (k - 1) == 0} | {n})


def averages(suites: Mapping[str, Mapping], n: int) -> dict[str, dict]:
    """`average` (plain mean over suites) and `weighted_average` (by suite size), with intervals."""
    scored = {name: s for name, s in suites.items() if s.get(f"acc@{n}") is not None}
    result = {}
    for name, weights in (
        ("average", [1.0] * len(scored)),
        ("weighted_average", [float(s["samples"]) for s in scored.values()]),
    ):
        if not scored:
            continue
        estimates = [
            Estimate(s["acc"]["value"], s["acc"]["se"], s["acc"]["low"], s["acc"]["high"])
            for s in scored.values()
        ]
        estimate = average(estimates, weights, counts=[s["samples"] for s in scored.values()])
        if estimate.low is not None:
            estimate = estimate._replace(low=max(0.0, estimate.low), high=min(1.0, estimate.high))
        entry = {f"acc@{n}": _rounded(estimate.value)}
        for key in (f"pass@{n}", "avg_tokens"):
            values = [s.get(key) for s in scored.values()]
            if None not in values:
                entry[key] = _rounded(
                    math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)
                )
        entry |= {
            "suites": len(scored),
            "se": _rounded(estimate.se),
            "low": _rounded(estimate.low),
            "high": _rounded(estimate.high),
        }
        result[name] = entry
    return result


def interval_fields(estimate: Estimate, values: Sequence[float]) -> dict:
    """An accuracy with standard error by problem, interval (`share_interval`) and bootstrap interval."""
    low, high = bootstrap_interval(values)
    return {
        "value": _rounded(estimate.value),
        "se": _rounded(estimate.se),
        "low": _rounded(estimate.low),
        "high": _rounded(estimate.high),
        "bootstrap_low": _rounded(low),
        "bootstrap_high": _rounded(high),
    }


def _runs(lines: Sequence[Mapping], n: int) -> list[float]:
    """Accuracy of the first sample of every problem, of the second, ...: the reference's runs; whole runs only.

    A sample's own number counts, where it has one: samples that failed leave no gap in the list.
    """
    runs = []
    for index in range(n):
        column = [s for line in lines for place, s in enumerate(line["generated_solutions"])
                  if (place if s.get("sample") is None else s["sample"]) == index]
        if column and len(column) == len(lines):
            runs.append(sum(bool(s["correct"]) for s in column) / len(column))
    return runs


def _population_std(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 10)
