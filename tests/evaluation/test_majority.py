"""maj@k by counting equals maj@k by walking over every subset."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grail_cli.evaluation.majority import majority_curve
from grail_cli.evaluation.score import majority_at_k


def walked(votes, k) -> Fraction:
    total, subsets = Fraction(0), list(itertools.combinations(votes, k))
    for subset in subsets:
        tally = Counter(name for name, _ in subset if name is not None)
        if tally:
            winners = [name for name, count in tally.items() if count == max(tally.values())]
            total += Fraction(sum((name, True) in votes for name in winners), len(winners))
    return total / len(subsets)


@settings(deadline=None)
@given(st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=9), st.sets(st.integers(0, 3)))
def test_counting_equals_walking(names, right):
    votes = [(name, name in right) for name in names]
    curve = majority_curve(votes)
    for k in range(1, len(votes) + 1):
        assert curve[k - 1] == pytest.approx(float(walked(votes, k)), abs=1e-12)
        assert float(majority_at_k(votes, k)) == pytest.approx(curve[k - 1], abs=1e-12)


def test_sixty_four_samples_of_seven_answers_stay_in_range():
    votes = [(i % 7, i % 7 == 3) for i in range(60)] + [(None, False)] * 4
    curve = [float(majority_at_k(votes, k)) for k in range(1, 65)]
    assert curve[0] == pytest.approx(9 / 64) and all(0 <= value <= 1 for value in curve)
    assert curve[-1] == pytest.approx(1 / 4)  # four answers have nine votes each


def test_too_many_votes_are_refused():
    with pytest.raises(ValueError):
        majority_curve([(0, True)] * 1001)
