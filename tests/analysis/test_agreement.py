import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from grail_cli.analysis.agreement import (
    agreement_table,
    compare_table,
    effective_share,
    method_table,
    spearman,
    top_indices,
    top_overlap,
)

from .made import many, scored

weights = st.lists(st.floats(0.1, 10), min_size=2, max_size=40)


@given(weights)
def test_effective_share_is_one_over_one_plus_squared_variation(values):
    w = np.array(values)
    assert effective_share(w) == pytest.approx(1 / (1 + (w.std() / w.mean()) ** 2), rel=1e-12)


@given(weights)
def test_the_angle_to_uniform_weights_follows_from_the_effective_share(values):
    w = np.array(values)
    cosine = w.sum() / (np.linalg.norm(w) * math.sqrt(len(w)))
    assert math.acos(min(cosine, 1)) == pytest.approx(math.acos(min(math.sqrt(effective_share(w)), 1)), abs=1e-6)


def test_spearman_equals_scipy_with_ties():
    a, b = np.array([1, 2, 2, 3, 5, 5.0]), np.array([2, 1, 4, 4, 3, 9.0])
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, rel=1e-12)


def test_a_constant_reading_has_no_correlation_and_no_top():
    assert math.isnan(spearman(np.ones(5), np.arange(5.0)))
    assert math.isnan(top_overlap(np.ones(5), np.arange(5.0)))


def test_overlap_of_the_top_fifth_by_hand():
    a = np.array([9, 8, 1, 1, 1, 1, 1, 1, 1, 1.0])
    b = np.array([9, 1, 8, 1, 1, 1, 1, 1, 1, 1.0])
    assert top_overlap(a, b) == 0.5
    assert top_indices(np.array([1.0, 3.0, 3.0]), 2) == [1, 2]


def test_overlap_of_unrelated_readings_is_chance():
    generator = np.random.default_rng(0)
    found = [top_overlap(generator.random(100), generator.random(100)) for _ in range(300)]
    assert np.mean(found) == pytest.approx(0.2, abs=0.02)


def test_a_method_agrees_with_itself_and_grpo_is_blank():
    rollouts = many(12)
    flat = [scored(np.ones(len(s.weights)), answer=s.answer) for s in rollouts]
    rows = compare_table({"grail": rollouts, "again": rollouts, "grpo": flat}, draws=50, seed=0)
    assert rows[0]["spearman"] == pytest.approx(1) and rows[0]["top20_overlap"] == 1
    assert math.isnan(rows[1]["spearman"]) and rows[1]["blank"] == 12 and rows[1]["rollouts"] == 0
    share = {r["method"]: r["mean"] for r in method_table({"grpo": flat}, draws=9, seed=0)
             if r["quantity"].startswith("effective")}
    assert share == {"grpo": pytest.approx(1)}


def test_agreement_finds_a_weight_that_is_position_and_skips_what_was_not_reweighted():
    rollouts = [scored(np.arange(1.0, 12.0), name=f"r{i}", logprob=-np.arange(11.0)) for i in range(3)]
    rollouts.append(scored(np.ones(11), reweighted=False))
    rows = {(r["reading"], r["sign"]): r for r in agreement_table(rollouts, draws=20, seed=0)}
    assert rows["position", "all"]["spearman"] == pytest.approx(1)
    assert rows["-log p", "all"]["spearman"] == pytest.approx(1)
    assert rows["position", "all"]["rollouts"] == 3
    assert ("position", "wrong") not in rows
