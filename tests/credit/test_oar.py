"""OAR-G and OAR-P against their definitions, and the facts that a reader of the papers would check."""

import pytest
import torch

from grail_cli.credit import CreditSettings, compute_credit
from grail_cli.credit.batch import rows_of
from grail_cli.credit.oar import oar_gradient, oar_replacement
from grail_cli.credit.passes import Passes

from .helpers import batch_of, network, random_rollouts, rollout

ROW = rollout([5, 6, 7], [8, 9, 10, 11, 12, 13], (3, 4))


def mean_logits(model, ids=None, embedded=None):
    """Mean logits over the answer's positions of ROW, straight from the definition."""
    output = model(input_ids=ids, inputs_embeds=embedded, use_cache=False)
    return output.logits[0, [3 + 2, 3 + 3]].mean(0)


def test_oar_g_is_the_gradient_of_the_divergence_at_noisy_embeddings():
    model = network("gpt2, body named transformer").eval()
    noise = torch.randn(6, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 1e-2
    found = oar_gradient(Passes(model), rows_of(batch_of([ROW])), alignment="predictor", eps=1e-12, noise={0: noise})[0]
    ids = torch.tensor([ROW["prompt"] + ROW["completion"]])
    clean = mean_logits(model, ids).softmax(-1).detach()
    embedded = model.get_input_embeddings()(ids).detach()
    embedded[0, 2:8] += noise
    embedded.requires_grad_()
    divergence = (clean * ((clean + 1e-12).log() - mean_logits(model, embedded=embedded).log_softmax(-1))).sum()
    gradient, = torch.autograd.grad(divergence, embedded)
    expected = (gradient * embedded)[0, 2:8].sum(-1).abs()
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-12) and found[:4].all() and found[5] == 0


def test_oar_p_is_the_divergence_under_a_replaced_token():
    model = network("gpt2, body named transformer").eval()
    found = oar_replacement(Passes(model), rows_of(batch_of([ROW])), eps=1e-12, pad_id=0)[0]
    whole = ROW["prompt"] + ROW["completion"]
    clean = mean_logits(model, torch.tensor([whole])).softmax(-1)
    for token in range(3):
        other = list(whole)
        other[3 + token] = 0
        q = mean_logits(model, torch.tensor([other])).log_softmax(-1)
        assert found[token].item() == pytest.approx((clean * (clean.log() - q)).sum().item(), rel=1e-5)
    assert not found[3:].any()


def test_oar_p_gives_nothing_to_a_token_that_the_model_ignores():
    model, row = network(), rollout([5, 6, 7], [0, 9, 10, 11, 12], (2, 3))  # token 0 is the pad token already
    scores = compute_credit(model, batch_of([row]), CreditSettings(method="oar_p"), 1.0).scores[0]
    assert scores[0] == pytest.approx(0, abs=1e-7) and scores[1] > 1e-3


def test_oar_g_is_the_same_under_one_key_and_differs_under_another():
    model, batch = network("qwen3, tied"), batch_of(random_rollouts(3))
    keyed = [compute_credit(model, batch, CreditSettings(method="oar_g"), 1.0, row_keys=[key] * 3).scores for key in (1, 1, 2)]
    assert torch.equal(keyed[0], keyed[1]) and not torch.allclose(keyed[0], keyed[2], rtol=0.1)


def rank_agreement(a, b):
    a, b = a.argsort().argsort().double(), b.argsort().argsort().double()
    return torch.corrcoef(torch.stack([a, b]))[0, 1].item()


def test_averages_over_more_draws_agree_better():
    model = network("qwen3, tied", dtype=torch.float32)
    draw = torch.Generator().manual_seed(5)
    row = rollout([5, 6, 7], torch.randint(2, 40, (40,), generator=draw).tolist(), (34, 37))
    batch, agreement = batch_of([row]), {}
    for draws in (1, 8):
        settings = CreditSettings(method="oar_g", oar_draws=draws)
        pairs = []
        for key in range(4):
            one, two = (compute_credit(model, batch, settings, 1.0, row_keys=[k]).scores[0, :34] for k in (key, key + 100))
            pairs.append(rank_agreement(one, two))
        agreement[draws] = sum(pairs) / len(pairs)
    assert agreement[8] > agreement[1] + 0.1 and agreement[8] > 0.7


def test_oar_takes_all_rollouts_unless_told_and_refuses_no_noise():
    assert CreditSettings(method="oar_g").rollouts == "all" and CreditSettings(method="grail").rollouts == "wrong"
    assert CreditSettings(method="oar_p", rollouts="wrong").rollouts == "wrong"
    with pytest.raises(ValueError, match="oar_noise_std"):
        CreditSettings(method="oar_g", oar_noise_std=0)
