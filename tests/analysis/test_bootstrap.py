import numpy as np
import pytest

from grail_cli.analysis.bootstrap import difference_over_rollouts, interval, mean_over_rollouts, resampled_counts


def test_each_draw_resamples_as_many_rollouts_as_there_are():
    counts = resampled_counts(7, 100, 0)
    assert counts.shape == (100, 7) and (counts.sum(axis=1) == 7).all()


def test_the_interval_covers_the_mean_of_normal_data_about_as_often_as_it_says():
    generator = np.random.default_rng(1)
    hits = 0
    for trial in range(300):
        _, low, high = interval(generator.normal(0, 1, 40), 300, trial)
        hits += low <= 0 <= high
    assert 0.88 <= hits / 300 <= 0.99


def test_missing_values_are_left_out_of_mean_and_interval():
    mean, low, high = mean_over_rollouts(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 5.0]]), 200, 0)
    assert mean.tolist() == [2.0, 5.0]
    assert low[0] == 1.0 and high[0] == 3.0
    assert np.isnan(low[1]) and np.isnan(high[1])  # one rollout fills the column


@pytest.mark.parametrize("values", [[], [2.0], [float("nan"), 2.0]])
def test_fewer_than_two_values_have_no_interval(values):
    _, low, high = interval(values, 100, 0)
    assert np.isnan(low) and np.isnan(high)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = np.random.default_rng(0).normal(size=30)
    assert interval(values, 100, 3) == interval(values, 100, 3) != interval(values, 100, 4)


def test_a_difference_of_equal_sets_straddles_zero():
    values = np.random.default_rng(0).normal(size=(40, 1))
    mean, low, high = difference_over_rollouts(values, values, 500, 0)
    assert mean[0] == 0 and low[0] < 0 < high[0]
