"""Scores, weights and readings of many rollouts: batched, and given back in the order of the input.

Everything goes through the credit engine that training uses, which reads a prompt once for all its rollouts, sorts by
length and keeps to a memory budget; neither batch size nor order changes a number beyond float rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .records import Rollout, Scored

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..credit import CreditSettings, Regions, RolloutBatch, TokenBytes

READ_AT_ONCE = 64  # positions whose float32 distribution is alive at once


def prompt_batches(rollouts: Sequence[Rollout], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of at most `batch_tokens` tokens (one rollout at least), rollouts of one prompt together.

    The engine sorts a batch by length or by prompt, whichever reads fewer tokens, and cuts it to its memory budget.
    """
    order = sorted(range(len(rollouts)), key=lambda i: (-len(rollouts[i].prompt_ids), rollouts[i].prompt_ids,
                                                        -len(rollouts[i].completion_ids), i))
    batch: list[int] = []
    held = 0
    for i in order:
        size = len(rollouts[i].prompt_ids) + len(rollouts[i].completion_ids)
        if batch and held + size > batch_tokens:
            yield batch
            batch, held = [], 0
        batch.append(i)
        held += size
    if batch:
        yield batch


def pack(rollouts: Sequence[Rollout], pad_id: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """prompt_ids, prompt_mask (B, P) padded on the left; completion_ids, completion_mask (B, T) on the right."""
    import torch

    p = max(len(r.prompt_ids) for r in rollouts)
    t = max(len(r.completion_ids) for r in rollouts)
    ids, mask = (torch.full((len(rollouts), p + t), fill, dtype=torch.long) for fill in (pad_id, 0))
    for i, r in enumerate(rollouts):
        row = (*r.prompt_ids, *r.completion_ids)
        start = p - len(r.prompt_ids)
        ids[i, start:start + len(row)] = torch.tensor(row)
        mask[i, start:start + len(row)] = 1
    ids, mask = ids.to(device), mask.to(device)
    return ids[:, :p], mask[:, :p], ids[:, p:], mask[:, p:]


def score_rollouts(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rollouts: Sequence[Rollout],
                   settings: CreditSettings, *, temperature: float, batch_tokens: int, readings: bool = True,
                   seed: int = 0, advance: Callable[[int], None] = lambda n: None) -> list[Scored]:
    """Every rollout scored under `settings`, in the order given; all of them must be free of faults.

    readings: also entropy and log-probability of every completion token (a forward pass with logits at all of them).
    Random draws come from a private stream a rollout, made of `seed` and its ids, so that batches do not matter.
    """
    import torch

    from ..credit import RolloutBatch, TokenBytes, compute_credit, find_regions

    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    regions = [find_regions(r.completion_ids, token_bytes, settings.answer_span) for r in rollouts]
    found: list[Scored | None] = [None] * len(rollouts)
    pad_id, budget = tokenizer.pad_token_id or 0, memory_budget(model)
    for batch in prompt_batches(rollouts, batch_tokens):
        chosen = [rollouts[i] for i in batch]
        packed = pack(chosen, pad_id, model.device)
        advantages = torch.tensor([r.signed_advantage for r in chosen], device=model.device)
        whole = RolloutBatch(*packed, advantages, [regions[i] for i in batch])
        credit = compute_credit(model, whole, settings, temperature, budget=budget,
                                row_keys=[row_key(r, seed) for r in chosen])
        read = token_readings(model, whole, temperature, budget) if readings else (None, None)
        for row, i in enumerate(batch):
            n = len(rollouts[i].completion_ids)
            numbers = [None if values is None else values[row, :n].float().cpu().numpy()
                       for values in (credit.scores, credit.weights, *read)]
            texts = token_texts(rollouts[i].completion_ids, token_bytes, tokenizer)
            found[i] = _scored(rollouts[i], regions[i], token_bytes, texts, numbers, bool(credit.reweighted[row]))
        advance(len(batch))
    return [one for one in found if one is not None]


def memory_budget(model: PreTrainedModel) -> int | None:
    """Bytes that one chunk may take: half of what a GPU has free, the engine's default on a CPU."""
    import torch

    return torch.cuda.mem_get_info(model.device)[0] // 2 if model.device.type == "cuda" else None


def row_key(rollout: Rollout, seed: int) -> int:
    """The key of a rollout's private random stream: from its ids and the seed alone."""
    text = f"{seed}|{rollout.prompt_ids}|{rollout.completion_ids}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def token_readings(model: PreTrainedModel, batch: RolloutBatch, temperature: float, budget: int | None = None
                   ) -> tuple[torch.Tensor, torch.Tensor]:
    """Entropy and log-probability (nats, float32) of every completion token, (B, T) each, at the given temperature."""
    import torch

    from ..credit.batch import rows_of
    from ..credit.passes import Passes, Read

    rows = rows_of(batch)
    entropy = torch.zeros(batch.completion_ids.shape, device=model.device)
    logprob = torch.zeros_like(entropy)
    passes = Passes(model, budget=budget)
    reads = [Read(row, (row.prompt[-1], *row.completion[:-1]), tuple(range(len(row.completion)))) for row in rows]
    for chunk in passes.chunks(reads, grad=False):
        with passes.frozen(chunk), torch.no_grad():
            logits = passes.logits(chunk, passes.prefix(chunk))  # (tokens of all rows, V)
        for read, values in zip(chunk.real, logits.split([len(read.wanted) for read in chunk.reads])):
            targets = torch.tensor(read.row.completion, device=model.device)
            for start in range(0, len(targets), READ_AT_ONCE):
                part = slice(start, start + READ_AT_ONCE)
                logp = (values[part].float() / temperature).log_softmax(-1)
                logprob[read.row.index, :len(targets)][part] = logp.gather(-1, targets[part, None])[:, 0]
                p = logp.exp()
                entropy[read.row.index, :len(targets)][part] = -torch.where(p > 0, p * logp, 0.0).sum(-1)
    return entropy, logprob


def respread(one: Scored, settings: CreditSettings) -> np.ndarray:
    """GRAIL's weights (T,) from the raw scores of a rollout under another rule of statistics, without pins."""
    import torch

    from ..credit.weights import z_weights

    mask = torch.ones(1, len(one.scores), dtype=torch.bool)
    if settings.stats == "reasoning" and one.reasoning:
        mask[:, one.reasoning:] = False
    return z_weights(torch.from_numpy(np.asarray(one.scores, dtype=np.float64))[None], mask, mean=settings.mean,
                     std=settings.std, w_min=settings.w_min, w_max=settings.w_max)[0].numpy()


def token_texts(ids: Sequence[int], token_bytes: TokenBytes, tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """The text of every token: its bytes (U+FFFD where they are a part of a character), or a special token's name."""
    return tuple(token_bytes[i].decode("utf-8", errors="replace") or tokenizer.convert_ids_to_tokens(i) or ""
                 for i in ids)


def _scored(rollout: Rollout, regions: Regions | None, token_bytes: TokenBytes, tokens: tuple[str, ...],
            numbers: list[np.ndarray | None], reweighted: bool) -> Scored:
    from ..credit.spans import find_boxes

    scores, weights, entropy, logprob = numbers
    boxes = len(find_boxes(b"".join(token_bytes[i] for i in rollout.completion_ids)))
    if regions is None:
        return Scored(rollout, tokens, scores, weights, False, boxes=boxes, entropy=entropy, logprob=logprob)
    return Scored(rollout, tokens, scores, weights, reweighted, regions.answer, regions.content, regions.boundary,
                  regions.post, boxes, entropy, logprob)
