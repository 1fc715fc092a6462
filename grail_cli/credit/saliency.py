"""GRAIL's saliency: gradient times activation of the answer's log-likelihood (spec, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from .batch import Row
from .passes import Chunk, Passes, Read


def saliency(passes: Passes, rows: Sequence[Row], *, temperature: float,
             alignment: Literal["predictor", "token"]) -> dict[int, Tensor]:
    """`|| dL/dh_j * h_j ||_2` of each row's tokens, L = - sum over the answer of log p(y_t | x, y_<t).

    Every row has an answer. Returns row index -> scores (T,), float32 (float64 for a float64 model); the norm
    runs in that precision. Tokens after the answer cannot influence it: their score is 0. `predictor` gives
    token t the score of position P + t - 1, which emits it; `token` that of its own position.
    """
    scores = {}
    for chunk in passes.chunks([answer_read(row) for row in rows]):
        with passes.frozen(chunk):
            leaf, logits = leaf_and_logits(passes, chunk)
            labels = [read.row.completion[token] for read in chunk.reads for token in read.wanted]
            labels = torch.tensor(labels, device=logits.device)
            loss = functional.cross_entropy(wide(logits) / temperature, labels, reduction="sum")
            gradient, = torch.autograd.grad(loss, leaf)
        by_position = (wide(gradient) * wide(leaf.detach())).norm(dim=-1)  # (n, width)
        scores |= by_token(by_position, chunk, alignment)
    return scores


def answer_read(row: Row) -> Read:
    """Read up to the answer's last but one token, and want the positions that emit the answer."""
    return Read(row, (row.prompt[-1], *row.completion[:row.last]), row.regions.answer)


def leaf_and_logits(passes: Passes, chunk: Chunk,
                    added: Callable[[Read, int], Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """The leaf (n, width, d), cut from what lies below it, and the logits (N, V) that depend on it.

    added: a row and d -> noise (suffix, d), added to the row's leaf from the prompt's last position on.
    """
    cut = []

    def edit(hidden: Tensor) -> Tensor:
        value = hidden.detach().clone()
        for row, read in zip(value, chunk.real if added else ()):
            row[chunk.start(read):][:len(read.suffix)] += added(read, value.shape[-1]).to(row)
        cut.append(value.requires_grad_())
        return cut[-1]

    logits = passes.logits(chunk, passes.prefix(chunk), edit)
    return cut[-1], logits


def by_token(by_position: Tensor, chunk: Chunk, alignment: str) -> dict[int, Tensor]:
    """Scores of positions (n, width) -> row index -> scores of its tokens (T,), 0 where nothing was read."""
    shift = {"predictor": 0, "token": 1}[alignment]
    scores = {}
    for read, values in zip(chunk.real, by_position):
        values = values[chunk.start(read):][:len(read.suffix)][shift:]  # of positions P - 1 + shift on
        tokens = values.new_zeros(len(read.row.completion))
        tokens[:len(values)] = values[:len(tokens)]
        scores[read.row.index] = tokens
    return scores


def wide(values: Tensor) -> Tensor:
    """At least float32: norms and softmax of half precision lose what they measure."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
