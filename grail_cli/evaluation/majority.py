"""maj@k for every k at once, exactly: the chance that the most frequent of k drawn answers is right.

Instead of walking over C(n, k) subsets, subsets are counted by generating functions. For a right answer that wins with
a votes, every other answer has at most a, and t of them exactly a, in which case it wins by lot with 1 / (t + 1).
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

MOST = 1000  # votes; binomial coefficients of more leave the range of floats


def majority_curve(votes: Sequence[tuple[object, bool]]) -> list[float]:
    """maj@1 .. maj@n of n votes (class of equal answers or None for no answer, right), ties broken by lot.

    An answer is right when one of its votes is. Relative error about 1e-13. Raises ValueError beyond MOST votes.
    """
    n = len(votes)
    if n > MOST:
        raise ValueError(f"{n} votes; at most {MOST}")
    counts = Counter(name for name, _ in votes if name is not None)
    right = {name for name, good in votes if good and name is not None}
    silent = n - sum(counts.values())
    return list(_curve(n, tuple(sorted(counts[name] for name in right)),
                       tuple(sorted(counts[name] for name in counts.keys() - right)), silent))


@lru_cache(maxsize=4096)
def _curve(n: int, right: tuple[int, ...], wrong: tuple[int, ...], silent: int) -> tuple[float, ...]:
    import numpy as np

    won = np.zeros(n + 1)  # by size of the subset
    for place, own in enumerate(right):
        others = (*right[:place], *right[place + 1:], *wrong)
        for a in range(1, own + 1):
            won[a:] += math.comb(own, a) * _below(n, a, others, silent)[:n + 1 - a]
    return tuple(float(won[k] / math.comb(n, k)) for k in range(1, n + 1))


def _below(n: int, a: int, others: tuple[int, ...], silent: int):
    """(n + 1,) by size: subsets of the other answers with at most a votes each, divided by one plus those with a."""
    import numpy as np

    ties = sum(count >= a for count in others)
    ways = np.zeros((n + 1, ties + 1))
    ways[:silent + 1, 0] = [math.comb(silent, drawn) for drawn in range(silent + 1)]
    for count in others:
        more = np.zeros_like(ways)
        for drawn in range(min(count, a - 1) + 1):
            more[drawn:] += math.comb(count, drawn) * ways[:n + 1 - drawn]
        if count >= a:
            more[a:, 1:] += math.comb(count, a) * ways[:n + 1 - a, :-1]
        ways = more
    return ways @ (1 / np.arange(1, ties + 2))
