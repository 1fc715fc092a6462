"""What token credit is computed from and what comes back, and a batch's rollouts without their padding."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .spans import CreditError, Regions


@dataclass(frozen=True)
class RolloutBatch:
    """B rollouts: prompts padded to P, completions padded to T, on either side; masks are 1 at real tokens.

    prompt_ids, prompt_mask (B, P); completion_ids, completion_mask (B, T): the end token belongs to the completion.
    advantages (B,): the sequence advantages. regions: B entries, as `find_regions` returns them for the completion
    without its padding; None where there is no answer. Masks alone tell padding: it may equal the end token.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    advantages: Tensor
    regions: Sequence[Regions | None]

    def __post_init__(self):
        count = len(self.completion_ids)
        for name in ("prompt_ids", "prompt_mask", "completion_mask", "advantages", "regions"):
            if len(getattr(self, name)) != count:
                raise CreditError(f"{name} has {len(getattr(self, name))} rows, completion_ids has {count}")


@dataclass(frozen=True)
class Credit:
    """Token weights of a batch: padding gets 0, a rollout that is not reweighted 1 (and its pins, by `pin`).

    weights (B, T) float32: factors of the advantage. scores (B, T) float32: what they were made of, 0 where
    no score was needed. reweighted (B,) bool: the rollouts whose scores shaped their weights.
    """

    weights: Tensor
    scores: Tensor
    reweighted: Tensor


@dataclass(frozen=True)
class Row:
    """One rollout without padding. `last` is the index of its answer's last token."""

    index: int
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    regions: Regions | None

    @property
    def last(self) -> int:
        return self.regions.answer[-1]


def rows_of(batch: RolloutBatch) -> list[Row]:
    """The batch's rollouts, each without its padding. Raises CreditError for regions that do not fit."""
    prompts = _unpadded(batch.prompt_ids, batch.prompt_mask)
    completions = _unpadded(batch.completion_ids, batch.completion_mask)
    rows = []
    for index, (prompt, completion, regions) in enumerate(zip(prompts, completions, batch.regions)):
        if not completion:
            regions = None  # a rollout masked as a whole has no token to weigh
        if regions is not None:
            if not prompt:
                raise CreditError(f"rollout {index} has an empty prompt: nothing predicts its first token")
            if regions.answer[-1] >= len(completion):
                raise CreditError(f"rollout {index}: its answer ends at token {regions.answer[-1]}, "
                                  f"its completion has {len(completion)} tokens")
        rows.append(Row(index, tuple(prompt), tuple(completion), regions))
    return rows


def _unpadded(ids: Tensor, mask: Tensor) -> list[list[int]]:
    rows = zip(ids.tolist(), mask.bool().tolist())
    return [[token for token, real in zip(*row) if real] for row in rows]


def row_keys_of(rows: Sequence[Row], seed: int = 0) -> list[int]:
    """A key a row from its own ids: a rollout draws the same numbers in any batch, process or resumed run."""
    keys = []
    for row in rows:
        text = f"{seed}|{row.prompt}|{row.completion}".encode()
        keys.append(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1)
    return keys


def to_columns(values: Tensor, batch: RolloutBatch) -> Tensor:
    """Values (B, T) with each row's tokens first -> in the batch's columns, 0 at padding."""
    mask = batch.completion_mask.bool()
    order = (mask.long().cumsum(-1) - 1).clamp(min=0)
    return torch.where(mask, values.gather(-1, order), torch.zeros_like(values))
