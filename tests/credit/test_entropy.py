"""The entropy method: the policy's entropy where it emits each token."""

import pytest
import torch

from grail_cli.credit import CreditSettings, compute_credit
from grail_cli.credit.weights import z_weights

from .helpers import batch_of, network, random_rollouts, unpadded


@pytest.mark.parametrize("alignment,shift", [("predictor", -1), ("token", 0)])
def test_entropies_are_those_of_the_whole_forward_pass(alignment, shift):
    model, rows = network(), random_rollouts(4)
    batch = batch_of(rows)
    credit = compute_credit(model, batch, CreditSettings(method="entropy", rollouts="all", alignment=alignment), 0.7)
    model.eval()
    for row, scores in zip(rows, unpadded(credit.scores, batch.completion_mask)):
        logits = model(input_ids=torch.tensor([row["prompt"] + row["completion"]])).logits[0] / 0.7
        entropies = torch.distributions.Categorical(logits=logits).entropy()
        start = len(row["prompt"]) + shift
        assert torch.allclose(scores, entropies[start:start + len(scores)].float(), rtol=1e-4)


def test_weights_are_the_same_map_with_the_same_pins():
    row = random_rollouts(1)[0]
    credit = compute_credit(network(), batch_of([row]), CreditSettings(method="entropy"), 1.0)
    mapped = z_weights(credit.scores, torch.ones_like(credit.scores, dtype=torch.bool))[0]
    before = row["regions"].answer[0]
    assert torch.allclose(credit.weights[0, :before], mapped[:before].float(), atol=1e-5)
    assert credit.weights[0, list(row["regions"].post)].eq(1).all()
