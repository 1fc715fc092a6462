"""The policy's entropy at each token: the score of the `entropy` method."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .batch import Row
from .passes import Passes, Read
from .saliency import by_token, wide


def entropy(passes: Passes, rows: Sequence[Row], *, temperature: float, alignment: str) -> dict[int, Tensor]:
    """Entropy in nats of the next-token distribution at `temperature`, row index -> (T,).

    `predictor` gives token t the entropy of the distribution that it was drawn from (position P + t - 1), `token` that
    of the distribution after it.
    """
    own = alignment == "token"
    reads = [Read(row, (row.prompt[-1], *row.completion[:len(row.completion) - (not own)]),
                  len(row.completion) + own) for row in rows]
    scores = {}
    for chunk in passes.chunks(reads, grad=False):
        with passes.frozen(chunk), torch.no_grad():
            logits = passes.logits(chunk, passes.prefix(chunk))
            columns = [_entropy(wide(part) / temperature) for part in logits.split(64, dim=1)]
        scores |= by_token(torch.cat(columns, dim=1), chunk, alignment)
    return scores


def _entropy(logits: Tensor) -> Tensor:
    """Entropy over the last axis; a probability of 0 adds nothing."""
    log_p = logits.log_softmax(-1)
    return -torch.where(log_p.isneginf(), 0.0, log_p.exp() * log_p).sum(-1)
