"""Intervals over seeds and problems: they cover, they widen for the right reasons, and p is exact."""

import itertools

import numpy as np
import pytest

from grail_cli.reporting.two_level import contrast, sign_p, two_level


@pytest.mark.parametrize("seeds, by_seed, by_problem, rest", [
    (8, 0.02, 0.0, 0.25), (8, 0.05, 0.1, 0.2), (8, 0.0, 0.2, 0.1), (5, 0.03, 0.1, 0.25)])
def test_the_interval_covers_the_truth(seeds, by_seed, by_problem, rest):
    generator, hits, trials = np.random.default_rng(3), 0, 200
    for trial in range(trials):
        table = (generator.normal(0, by_seed, (seeds, 1)) + generator.normal(0, by_problem, (1, 100))
                 + generator.normal(0, rest, (seeds, 100)))
        interval = two_level(table, draws=500, seed=trial)
        hits += interval.low <= 0 <= interval.high
    assert hits / trials >= 0.90


def test_seeds_that_differ_widen_it_however_many_problems_there_are():
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 0.1, (8, 2000))
    apart = two_level(noise + np.linspace(-0.1, 0.1, 8)[:, None])
    alike = two_level(noise)
    assert apart.high - apart.low > 5 * (alike.high - alike.low)


def test_one_seed_has_no_interval():
    assert two_level(np.ones((1, 5))) == (1.0, None, None)
    made = contrast(np.ones((1, 5)), np.zeros((1, 5)))
    assert made.p is None and made.detectable is None


def test_an_empty_table_is_refused():
    with pytest.raises(ValueError):
        two_level(np.ones((0, 5)))


def test_p_is_that_of_all_signs():
    differences = [0.3, -0.1, 0.2, 0.4, 0.05]
    observed = abs(sum(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in itertools.product((1, -1), repeat=5)]
    assert sign_p(differences) == pytest.approx(sum(s >= observed - 1e-12 for s in sums) / 32)
    assert sign_p([1.0] * 8) == 2 / 256


def test_identical_arms_are_the_same_and_nothing_else_is():
    table = np.random.default_rng(0).random((8, 20))
    same = contrast(table, table)
    assert same.same and same.p == 1.0 and same.detectable is None and same.difference == (0.0, 0.0, 0.0)
    assert not contrast(table + 0.1, table).same
