"""OAR's scores: how far the answer's distribution moves when a token is disturbed (spec, section 5).

OAR-G takes one noisy gradient for all tokens. Its divergence is about 1e-5, below what bfloat16 resolves, so
the forward runs outside autocast: load the model in float32. OAR-P replaces one token at a time: the upper
bound in cost.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from .batch import Row
from .passes import Chunk, Passes, Read
from .saliency import answer_read, by_token, leaf_and_logits, wide


def oar_gradient(passes: Passes, rows: Sequence[Row], *, alignment: str, eps: float, noise_std: float = 1e-3,
                 draws: int = 1, keys: Sequence[int] = (),
                 noise: dict[int, Tensor] | None = None) -> dict[int, Tensor]:
    """OAR-G: `|<dK/de_j, e_j>|` at noisy embeddings e, K = sum P0 (log(P0 + eps) - log Q). Row index -> (T,).

    keys: a seed for every rollout of the batch, by its index; a row's noise depends on its key alone. noise:
    given instead, row index -> (T, d) added at positions P - 1 .. P + T - 2. Several draws are averaged.
    """
    scores: dict[int, Tensor] = {}
    if rows and next(passes.model.parameters()).element_size() < torch.float32.itemsize:
        warnings.warn("OAR-G's divergence is smaller than half precision resolves, so most of these scores are "
                      "rounding: load the model in float32 (mixed precision keeps it)", stacklevel=2)
    for chunk in passes.chunks([answer_read(row) for row in rows]):
        for draw in range(draws):
            with passes.frozen(chunk):
                with torch.no_grad():
                    reference = answer_mean(passes.logits(chunk, passes.prefix(chunk)), chunk).softmax(-1)

                def added(read: Read, width: int, draw: int = draw) -> Tensor:
                    if noise is not None:
                        return noise[read.row.index][:len(read.suffix)]
                    return _draw(keys[read.row.index], draw, len(read.suffix), width) * noise_std

                leaf, logits = leaf_and_logits(passes, chunk, added)
                disturbed = answer_mean(logits, chunk).log_softmax(-1)
                divergence = (reference * ((reference + eps).log() - disturbed)).sum()
                gradient, = torch.autograd.grad(divergence, leaf)
            by_position = (wide(gradient) * wide(leaf.detach())).sum(dim=-1).abs()
            for row, values in by_token(by_position, chunk, alignment).items():
                scores[row] = scores.get(row, 0) + values / draws
    return scores


def oar_replacement(passes: Passes, rows: Sequence[Row], *, eps: float, pad_id: int) -> dict[int, Tensor]:
    """OAR-P: the divergence when reasoning token t is the pad token; others score 0. Row index -> (T,).

    A row of R reasoning tokens costs R rows of a forward pass.
    """
    scores = {row.index: torch.zeros(len(row.completion), device=passes.device) for row in rows}
    reads, places = [], []
    for row in rows:
        plain = answer_read(row)
        reads.append(plain)
        places.append(-1)
        for token in range(row.regions.answer[0]):
            suffix = list(plain.suffix)
            suffix[token + 1] = pad_id
            reads.append(Read(row, tuple(suffix), plain.wanted))
            places.append(token)
    found: dict[tuple[int, int], Tensor] = {}
    place_of = {id(read): place for read, place in zip(reads, places)}
    for chunk in passes.chunks(reads, grad=False):
        with passes.frozen(chunk), torch.no_grad():
            means = answer_mean(passes.logits(chunk, passes.prefix(chunk)), chunk)
        for read, mean in zip(chunk.real, means):
            found[read.row.index, place_of[id(read)]] = mean
    for (index, place), mean in found.items():
        if place >= 0:
            reference = found[index, -1].softmax(-1)
            scores[index][place] = (reference * ((reference + eps).log() - mean.log_softmax(-1))).sum()
    return scores


def answer_mean(logits: Tensor, chunk: Chunk) -> Tensor:
    """Mean over each row's answer positions of its logits: (N, V) -> (n, V), at least float32."""
    parts = wide(logits).split([len(read.wanted) for read in chunk.reads])
    return torch.stack([part.mean(0) for part in parts])


def _draw(key: int, draw: int, length: int, width: int) -> Tensor:
    """Standard normal noise (length, width), the same for a key and draw on every device and process."""
    generator = torch.Generator().manual_seed((key + draw * 0x9E3779B97F4A7C15) % 2**63)
    return torch.randn(length, width, generator=generator)
