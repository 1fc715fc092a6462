"""Saliency out of the policy's own forward pass equals that of the separate pass, and leaves the loss alone."""

import pytest
import torch

from grail_cli.credit import CreditSettings, compute_credit
from grail_cli.credit.fused import listening, pays

from .helpers import batch_of, network, random_rollouts


def policy_loss(model, batch, weights=None):
    """A stand-in for the surrogate: weighted log-probabilities over the batch's columns; and its weights' source."""
    ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.completion_mask], 1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, batch.prompt_ids.shape[1] - 1:-1]
    logps = logits.log_softmax(-1).gather(-1, batch.completion_ids.unsqueeze(-1)).squeeze(-1)
    return logps * batch.completion_mask


@pytest.mark.parametrize("kind", ["llama, untied", "qwen3, tied", "phi, head with bias", "mistral, sliding window"])
@pytest.mark.parametrize("leaf", ["embeddings", "middle"])
@pytest.mark.parametrize("alignment", ["predictor", "token"])
def test_fused_and_separate_scores_agree(kind, leaf, alignment):
    model = network(kind, dtype=torch.float32, attention="sdpa")
    batch = batch_of(random_rollouts(5))
    settings = CreditSettings(method="grail", rollouts="all", leaf=leaf, alignment=alignment)
    separate = compute_credit(model, batch, settings, 0.8)
    with listening(model, leaf) as tap:
        policy_loss(model, batch)
    fused = compute_credit(model, batch, settings, 0.8, tap=tap)
    assert torch.allclose(fused.scores, separate.scores, rtol=1e-3, atol=1e-5)
    assert torch.allclose(fused.weights, separate.weights, rtol=1e-3, atol=1e-4)


def test_the_gradient_of_the_loss_is_the_same_to_the_bit():
    batch, settings = batch_of(random_rollouts(4)), CreditSettings(method="grail", rollouts="all")
    gradients = []
    for fuse in (False, True):
        model = network("qwen3, tied", dtype=torch.float32)
        if fuse:
            with listening(model) as tap:
                logps = policy_loss(model, batch)
            compute_credit(model, batch, settings, 1.0, tap=tap)
            assert all(parameter.grad is None for parameter in model.parameters())
        else:
            logps = policy_loss(model, batch)
        logps.sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(*gradients))


def test_frozen_embeddings_are_listened_to():
    model, batch = network("llama, untied", dtype=torch.float32), batch_of(random_rollouts(3))
    settings = CreditSettings(method="grail", rollouts="all")
    model.get_input_embeddings().weight.requires_grad_(False)
    with listening(model) as tap:
        policy_loss(model, batch)
    fused = compute_credit(model, batch, settings, 1.0, tap=tap)
    assert torch.allclose(fused.scores, compute_credit(model, batch, settings, 1.0).scores, rtol=1e-3, atol=1e-5)


def test_it_pays_for_many_rollouts_and_plain_layers_only():
    model = network("llama, untied")
    assert pays(model, 1.0) and not pays(model, 0.5)
    assert not pays(network("gemma2, softcap and scaled embeddings"), 1.0)
    assert not pays(network("gpt2, body named transformer"), 1.0)  # its dropout is at work in the policy's pass
    model.gradient_checkpointing_enable()
    assert not pays(model, 1.0)

    class Engine(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    assert not pays(Engine(network("llama, untied")), 1.0)


def test_a_batch_without_an_answer_needs_no_gradient():
    model, rows = network("llama, untied", dtype=torch.float32), random_rollouts(2)
    batch = batch_of([{**row, "regions": None} for row in rows])
    with listening(model) as tap:
        policy_loss(model, batch)
    assert not compute_credit(model, batch, CreditSettings(method="grail"), 1.0, tap=tap).scores.any()
