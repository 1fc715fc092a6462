import math
from collections import defaultdict

import numpy as np
import pytest

from grail_cli.analysis.positional import (
    bins_of,
    pooled_profile,
    positional_summary,
    reference_summary,
    rollout_profile,
)

from .made import many, scored


def test_positions_follow_the_specification_at_the_edges():
    assert bins_of(1, 20).tolist() == [0]
    assert bins_of(0, 20).tolist() == []
    assert bins_of(2, 20).tolist() == [0, 19]
    assert bins_of(5, 4).tolist() == [0, 1, 2, 3, 3]  # 0, .25, .5, .75, 1
    assert bins_of(21, 20).tolist() == [*range(20), 19]


@pytest.mark.parametrize("reasoning", [3, 7, 20, 41, 1000])
def test_no_token_leaves_the_bins(reasoning):
    where = bins_of(reasoning, 20)
    assert where.min() == 0 and where.max() == 19 and (np.diff(where) >= 0).all()


def independent_summary(rollouts, quantity, bins):
    """The same numbers by dictionaries and exact fractions."""
    from fractions import Fraction

    inside = defaultdict(list)
    for one in rollouts:
        n = one.answer[0]
        for t in range(n):
            position = Fraction(t, n - 1) if n > 1 else Fraction(0)
            b = min(math.floor(position * bins), bins - 1)
            inside[b].append(float(one.weights[t] if quantity == "weight" else one.scores[t]))
    mean = [math.fsum(inside[b]) / len(inside[b]) for b in range(bins)]
    std = [math.sqrt(math.fsum((v - mean[b]) ** 2 for v in inside[b]) / len(inside[b])) for b in range(bins)]
    return mean, std, [std[b] / math.sqrt(len(inside[b])) for b in range(bins)], [len(inside[b]) for b in range(bins)]


@pytest.mark.parametrize("quantity", ["weight", "score"])
@pytest.mark.parametrize("sign", ["all", "correct", "wrong"])
def test_reference_summary_equals_an_independent_computation(quantity, sign):
    rollouts = many(40, seed=3)
    doc = reference_summary(rollouts, step=7, bins=20)
    chosen = [s for s in rollouts if sign == "all" or s.rollout.correct == (sign == "correct")]
    mean, std, sem, count = independent_summary(chosen, quantity, 20)
    part = doc[quantity][sign]
    assert part["count"] == count
    np.testing.assert_allclose(part["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(part["std"], std, rtol=1e-9)
    np.testing.assert_allclose(part["sem"], sem, rtol=1e-9)
    assert doc["n_samples"][sign] == len(chosen) and doc["step"] == 7


def test_an_empty_bin_is_blank_and_not_zero():
    doc = pooled_profile([np.array([1.0, 3.0])], 4)
    assert doc["mean"] == [1.0, None, None, 3.0] and doc["count"] == [1, 0, 0, 1]


def test_a_long_rollout_does_not_outvote_a_short_one():
    short, long = scored([2.0] * 4 + [1.0], name="a"), scored([1.0] * 400 + [1.0], name="b")
    doc = positional_summary([short, long], bins=1, drop_first=0, drop_last=0, draws=50, seed=0)
    assert doc["weight"]["all"]["mean"] == [1.5]
    assert reference_summary([short, long], step=0, bins=1)["weight"]["all"]["mean"][0] == pytest.approx(408 / 404)


def test_one_rollout_has_a_blank_interval():
    doc = positional_summary([scored([1.0, 2.0, 1.0])], bins=2, drop_first=0, drop_last=0, draws=50, seed=0)
    assert doc["weight"]["all"]["mean"] == [1.0, 2.0]
    assert doc["weight"]["all"]["low"] == [None, None] == doc["weight"]["all"]["high"]
    assert doc["weight"]["difference"]["mean"] == [None, None]


def test_dropped_tokens_are_gone_and_positions_are_counted_anew():
    one = scored([9.0, 1.0, 2.0, 9.0, 1.0])
    doc = positional_summary([one], bins=2, drop_first=1, drop_last=1, draws=0, seed=0)
    assert doc["weight"]["all"]["mean"] == [1.0, 2.0]


def test_dropping_all_tokens_leaves_blanks():
    doc = positional_summary([scored([1.0, 1.0, 1.0])], bins=2, drop_first=5, drop_last=5, draws=9, seed=0)
    assert doc["weight"]["all"]["mean"] == [None, None]


def test_difference_is_correct_minus_wrong_with_an_interval_that_holds_it():
    rollouts = [scored([1.2] * 5 + [1], name=f"c{i}") for i in range(6)]
    rollouts += [scored([1.0 + 0.01 * i] * 5 + [1], name=f"w{i}", correct=False) for i in range(6)]
    part = positional_summary(rollouts, bins=1, drop_first=0, drop_last=0, draws=400, seed=0)["weight"]["difference"]
    assert part["mean"][0] == pytest.approx(1.2 - 1.025)
    assert part["low"][0] < part["mean"][0] < part["high"][0]


def test_profiles_do_not_depend_on_the_order_of_rollouts():
    rollouts = many(25, seed=5)
    one = positional_summary(rollouts, bins=20, drop_first=0, drop_last=0, draws=0, seed=0)
    other = positional_summary(rollouts[::-1], bins=20, drop_first=0, drop_last=0, draws=0, seed=0)
    np.testing.assert_allclose(one["weight"]["all"]["mean"], other["weight"]["all"]["mean"], rtol=1e-12)


def test_a_rollout_profile_averages_inside_the_bin():
    np.testing.assert_allclose(rollout_profile(np.array([1.0, 2.0, 3.0, 4.0, 6.0]), 2), [1.5, 13 / 3])
