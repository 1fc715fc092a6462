"""Intervals, paired differences and p values against scipy, exact enumeration and simulation."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats as scipy_stats

from grail_cli.evaluation.stats import (
    Estimate,
    average,
    bootstrap_interval,
    holm,
    mean_interval,
    paired_difference,
    permutation_p,
    share_interval,
    smallest_detectable,
)


@pytest.fixture
def values():
    return list(np.random.default_rng(3).integers(0, 4, 40) / 3)


def test_mean_standard_error_and_t_interval_are_scipys(values):
    estimate = mean_interval(values)
    low, high = scipy_stats.t.interval(
        0.95, len(values) - 1, loc=np.mean(values), scale=scipy_stats.sem(values)
    )
    assert estimate.value == pytest.approx(np.mean(values), abs=1e-12)
    assert estimate.se == pytest.approx(scipy_stats.sem(values), abs=1e-12)
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def test_the_bootstrap_interval_is_scipys_up_to_its_draws(values):
    expected = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    low, high = bootstrap_interval(values)
    assert (low, high) == (pytest.approx(expected.low, abs=0.01), pytest.approx(expected.high, abs=0.01))
    assert bootstrap_interval(values) == (low, high)


def test_a_suite_that_is_all_wrong_or_all_right_has_the_exact_binomial_bound():
    for k, values in ((0, [0.0] * 20), (20, [1.0] * 20)):
        expected = scipy_stats.binomtest(k, 20).proportion_ci(0.95, method="exact")
        estimate = share_interval(values)
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_an_interval_of_shares_stays_inside_them():
    assert share_interval([0.0] * 9 + [1.0]).low == 0.0
    assert share_interval([1.0] * 9 + [0.0]).high == 1.0


def test_one_problem_has_a_mean_and_no_interval():
    assert mean_interval([0.5]) == Estimate(0.5, None, None, None)
    with pytest.raises(ValueError, match="no problems"):
        mean_interval([])


def test_the_interval_covers_the_truth_in_95_of_100_simulated_evaluations():
    rng, problems, n, runs = np.random.default_rng(5), 30, 3, 3000
    chances = rng.beta(0.5, 0.5, (runs, problems))
    shares = rng.binomial(n, chances) / n
    covered = sum(low <= 0.5 <= high for low, high in (mean_interval(row)[2:] for row in shares.tolist()))
    assert 0.93 <= covered / runs <= 0.97


def test_the_paired_interval_covers_the_truth_in_95_of_100_simulated_comparisons():
    rng, problems, n, runs = np.random.default_rng(6), 30, 3, 2000
    chances = rng.beta(0.5, 0.5, (runs, problems))
    ours, theirs = (rng.binomial(n, chances) / n for _ in range(2))
    covered = sum(
        low <= 0 <= high for low, high in (mean_interval(row)[2:] for row in (ours - theirs).tolist())
    )
    assert 0.93 <= covered / runs <= 0.97


def test_the_exact_permutation_p_is_that_of_all_sign_patterns():
    differences = [Fraction(k, 6) for k in (3, -1, 2, 4, -2, 1, 5, 0, 2, -3)]
    observed = abs(sum(differences))
    patterns = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(abs(total) >= observed for total in patterns) / len(patterns)
    assert permutation_p(differences) == pytest.approx(expected, abs=1e-12)


def test_the_drawn_permutation_p_agrees_with_scipy():
    differences = np.random.default_rng(2).normal(0.2, 1, 60)
    expected = scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
    ).pvalue
    assert permutation_p(list(differences)) == pytest.approx(expected, abs=0.02)


def test_equal_models_have_p_one_and_a_planted_difference_has_a_small_one():
    same = [Fraction(1, 3)] * 50
    assert paired_difference(same, same).p == 1.0
    better = paired_difference([Fraction(2, 3)] * 50, same)
    assert better.value == pytest.approx(1 / 3) and better.p == pytest.approx(2**-49, rel=1e-6)


def test_holm_is_the_published_example():
    # Holm (1979) as in Wright (1992): 0.01, 0.04, 0.03, 0.005 -> 0.03, 0.06, 0.06, 0.02
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_an_average_over_suites_adds_variances():
    suites = [mean_interval([0, 1, 1, 0]), mean_interval([1, 1, 0, 1, 1])]
    plain = average(suites)
    assert plain.value == pytest.approx((0.5 + 0.8) / 2)
    assert plain.se == pytest.approx(math.sqrt(suites[0].se ** 2 + suites[1].se ** 2) / 2)
    assert average(suites, [4, 5]).value == pytest.approx((4 * 0.5 + 5 * 0.8) / 9)


def test_the_smallest_detectable_difference_is_detected_four_times_in_five():
    rng, n = np.random.default_rng(0), 60
    effect = smallest_detectable(1 / math.sqrt(n), n - 1)
    p = scipy_stats.ttest_1samp(rng.normal(effect, 1, (4000, n)), 0, axis=1).pvalue
    assert np.mean(p < 0.05) == pytest.approx(0.8, abs=0.03)


def test_an_all_wrong_suite_enters_an_average_with_the_doubt_of_its_exact_bound():
    from scipy.stats import norm, t

    wrong, half = share_interval([0.0] * 4), share_interval([0.0, 1.0, 0.0, 1.0, 0.0])
    found = average([wrong, half], counts=[4, 5])
    doubt = (1 - 0.025 ** (1 / 4)) / norm.ppf(0.975)
    variances = [(doubt / 2) ** 2, (half.se / 2) ** 2]
    assert found.se == pytest.approx(math.sqrt(sum(variances)))
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 3 + variances[1] ** 2 / 4)
    assert found.high - found.value == pytest.approx(t.ppf(0.975, freedom) * found.se)


def test_differences_that_are_all_alike_tell_no_interval():
    found = paired_difference([Fraction(0)] * 4, [Fraction(0)] * 4)
    assert (found.value, found.p) == (0.0, 1.0)
    assert found.se is found.low is found.high is found.detectable is None
