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

    `predictor` gives token t the entropy of the distribution that it was drawn from (position P + t - 1),
    `token` that of the distribution after it.
    """
    own = alignment == "token"
    reads = []
    for row in rows:
        suffix = (row.prompt[-1], *row.completion[:len(row.completion) - (not own)])
        reads.append(Read(row, suffix, tuple(range(len(suffix)))))
    scores = {}
    for chunk in passes.chunks(reads, grad=False):
        with passes.frozen(chunk), torch.no_grad():
            logits = passes.logits(chunk, passes.prefix(chunk))
            values = torch.cat([_entropy(wide(part) / temperature) for part in logits.split(256)])
        by_position = values.new_zeros(len(chunk.reads), chunk.width)
        parts = values.split([len(read.wanted) for read in chunk.reads])
        for row, read, part in zip(by_position, chunk.reads, parts):
            row[chunk.start(read):][:len(part)] = part
        scores |= by_token(by_position, chunk, alignment)
    return scores


def _entropy(logits: Tensor) -> Tensor:
    """Entropy over the last axis; a probability of 0 adds nothing."""
    log_p = logits.log_softmax(-1)
    return -torch.where(log_p.isneginf(), 0.0, log_p.exp() * log_p).sum(-1)
