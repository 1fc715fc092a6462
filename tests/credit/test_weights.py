"""The maps from scores to weights: hand-computed cases and the facts that a reviewer would check."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grail_cli.credit.weights import EPS, bilevel_weights, permute_weights, pin, z_weights

many = settings(deadline=None, max_examples=80)
score_lists = st.lists(st.floats(0, 1e6, allow_subnormal=True), min_size=1, max_size=30)
spread_scores = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=30).filter(lambda s: max(s) > 1.5 * min(s))


def row(values, mask=None):
    scores = torch.tensor([values], dtype=torch.float64)
    return scores, torch.ones_like(scores, dtype=torch.bool) if mask is None else torch.tensor([mask])


def z_of(values, mask=None, **options):
    return z_weights(*row(values, mask), **options)[0]


def test_three_tokens_by_hand():
    # logs -1, 0, 1: mean 0, variance 2/3, z = -+ sqrt(3/2)
    weights = z_of([math.exp(-1) - EPS, 1 - EPS, math.exp(1) - EPS], mean=1.0, std=0.5, w_min=0.1, w_max=5.0)
    half = 0.5 * math.sqrt(1.5)
    assert weights.tolist() == pytest.approx([1 - half, 1.0, 1 + half], abs=1e-6)


@many
@given(score_lists, st.floats(0.1, 1.0), st.floats(0.05, 3))
def test_every_weight_lies_within_the_bounds_and_is_finite(scores, w_min, std):
    weights = z_of(scores, w_min=w_min, std=std, w_max=2.0)
    assert torch.isfinite(weights).all() and weights.min() >= w_min and weights.max() <= 2.0


@many
@given(spread_scores, st.floats(0.01, 100))
def test_scaling_the_scores_changes_nothing(scores, factor):
    assert torch.allclose(z_of(scores), z_of([factor * s for s in scores]), atol=1e-4)


@many
@given(st.floats(0, 1e6), st.integers(1, 500), st.floats(0.5, 2))
def test_equal_scores_get_the_mean(score, count, mean):
    assert torch.allclose(z_of([score] * count, mean=mean), torch.full((count,), mean, dtype=torch.float64), atol=1e-9)


@many
@given(spread_scores)
def test_before_clipping_the_weights_have_the_mean_and_deviation_that_were_asked_for(scores):
    weights = z_of(scores, mean=3.0, std=0.4, w_min=0.0, w_max=100.0)
    assert weights.mean().item() == pytest.approx(3.0, abs=1e-9)
    assert weights.std(correction=0).item() == pytest.approx(0.4, rel=1e-4)


@many
@given(spread_scores, st.lists(st.floats(0, 1e9), max_size=10), st.booleans())
def test_tokens_outside_the_mask_do_not_move_the_weights_inside(scores, others, before):
    inside = [True] * len(scores)
    outside = [False] * len(others)
    values, mask = (others + scores, outside + inside) if before else (scores + others, inside + outside)
    assert torch.allclose(z_of(values, mask)[torch.tensor(mask)], z_of(scores), atol=1e-12)


def test_an_empty_mask_gives_the_mean():
    assert z_of([1.0, 2.0], [False, False], mean=1.5).tolist() == [1.5, 1.5]


def test_tokens_behind_the_answer_squeeze_the_weights_as_the_closed_form_says():
    # n tokens with log scores of deviation 1.5 and k tokens at log(1e-8): z of the n has deviation 1.5 / total deviation
    torch.manual_seed(0)
    n, k, deviation = 1000, 200, 1.5
    logs = torch.randn(n, dtype=torch.float64)
    logs = (logs - logs.mean()) / logs.std(correction=0) * deviation - 5
    scores = torch.cat([logs.exp() - EPS, torch.zeros(k, dtype=torch.float64)])[None]
    total = math.sqrt(n / (n + k) * deviation**2 + n * k / (n + k) ** 2 * (-5 - math.log(EPS)) ** 2)
    squeezed = z_weights(scores, torch.ones_like(scores, dtype=torch.bool), mean=5.0, w_min=0.0, w_max=50.0)[0, :n]
    assert squeezed.std(correction=0).item() == pytest.approx(0.5 * deviation / total, rel=1e-6)
    assert squeezed.std(correction=0).item() == pytest.approx(0.15, abs=0.01)  # near uniform: the tail effect
    reasoning = torch.arange(n + k)[None] < n
    for tail in (0, 7, k):
        part = z_weights(scores[:, :n + tail], reasoning[:, :n + tail], mean=5.0, w_min=0.0, w_max=50.0)[0, :n]
        assert part.std(correction=0).item() == pytest.approx(0.5, rel=1e-6)  # whatever the tail


def test_pins_override_content_first_of_all():
    weights = torch.tensor([[0.7, 0.7, 0.7, 0.7]], dtype=torch.float64)
    content, fixed = torch.tensor([[False, True, False, False]]), torch.tensor([[False, False, True, True]])
    assert pin(weights, content, fixed, mean=1.0, w_max=5.0).tolist() == [[0.7, 5.0, 1.0, 1.0]]


def test_bilevel_by_hand():
    # I' = 0, 1/3, 2/3, 1; tau 0.4 of 4 tokens: index 1, q = 1/3. Below q: max(0, .1); from q: 1, 1 + 2*(1/3)/(2/3), 3
    scores = torch.expm1(torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64))
    raw = [0.1, 1.0, 2.0, 3.0]
    expected = [value * 4 / sum(raw) for value in raw]
    assert bilevel_weights(*row(scores[0].tolist()))[0].tolist() == pytest.approx(expected, rel=1e-7)


@many
@given(score_lists, st.floats(0.05, 0.95), st.floats(0, 4))
def test_bilevel_keeps_the_mass_rises_with_the_score_and_has_a_floor(scores, tau, beta):
    weights = bilevel_weights(*row(scores), tau=tau, beta=beta)[0]
    assert torch.isfinite(weights).all() and weights.sum().item() == pytest.approx(len(scores), rel=1e-6)
    order = torch.tensor(scores, dtype=torch.float64).argsort(stable=True)
    assert (weights[order].diff() >= -1e-9).all()
    at_tau = weights[order][min(int(tau * len(scores)), len(scores) - 1)]
    assert (weights / at_tau).min() >= 0.1 - 1e-9  # the tau token is 1 before the mass is restored


@many
@given(st.floats(0, 1e6), st.integers(1, 40))
def test_bilevel_of_equal_scores_is_uniform(score, count):
    assert torch.allclose(bilevel_weights(*row([score] * count)), torch.ones(1, count, dtype=torch.float64), atol=1e-6)


def test_bilevel_ignores_padding_and_leaves_an_empty_row_finite():
    scores, mask = torch.tensor([[3.0, 1.0, 2.0, 9.0], [5.0] * 4]), torch.tensor([[True, True, True, False], [False] * 4])
    weights = bilevel_weights(scores, mask)
    assert torch.allclose(weights[0, :3], bilevel_weights(*row([3.0, 1.0, 2.0]))[0])
    assert weights[0, 3] == 0 and weights[1].tolist() == [0.0] * 4


@many
@given(st.integers(0, 2**63 - 1), st.lists(st.booleans(), min_size=1, max_size=20))
def test_a_permutation_keeps_the_multiset_and_leaves_the_others_alone(key, chosen):
    weights = torch.arange(len(chosen), dtype=torch.float64)[None]
    mask = torch.tensor([chosen])
    moved = permute_weights(weights, mask, [key])
    assert torch.equal(moved[~mask], weights[~mask])
    assert torch.equal(moved[mask].sort().values, weights[mask].sort().values)
    padded = permute_weights(torch.cat([weights, weights], 1), torch.cat([mask, torch.zeros_like(mask)], 1), [key])
    assert torch.equal(padded[:, :len(chosen)], moved)


def test_permutations_leave_the_global_generator_alone():
    state = torch.random.get_rng_state()
    permute_weights(torch.rand(2, 9, generator=torch.Generator()), torch.ones(2, 9, dtype=torch.bool), [1, 2])
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_effective_share_of_tokens_is_one_over_one_plus_the_squared_variation():
    weights = z_of([0.1, 0.5, 2.0, 9.0, 3.0])
    share = weights.sum() ** 2 / (len(weights) * (weights**2).sum())
    variation = weights.std(correction=0) / weights.mean()
    assert share.item() == pytest.approx(1 / (1 + variation.item() ** 2), abs=1e-12)
    uniform = torch.ones_like(weights)
    angle = torch.nn.functional.cosine_similarity(weights, uniform, dim=0).acos().item()
    assert angle == pytest.approx(math.acos(math.sqrt(share.item())), abs=1e-6)
