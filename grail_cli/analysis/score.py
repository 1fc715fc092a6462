"""Scores, weights and readings of many rollouts: batched, sorted by length, given back in the order of the input.

Everything goes through the credit engine that training uses. A batch holds rollouts of like length, so that little of
it is padding; neither batch size nor order changes a number beyond float rounding.
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

    from ..credit import Credit, CreditSettings, Regions, TokenBytes

READING_BYTES = 1 << 30  # logits that may be alive at once while entropy is read


def length_batches(rollouts: Sequence[Rollout], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of at most `batch_tokens` padded tokens (one rollout at least), longest first."""
    order = sorted(range(len(rollouts)), key=lambda i: (-_length(rollouts[i]), i))
    batch: list[int] = []
    prompt = completion = 0
    for i in order:
        p = max(prompt, len(rollouts[i].prompt_ids))
        c = max(completion, len(rollouts[i].completion_ids))
        if batch and (p + c) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, p, c = [], len(rollouts[i].prompt_ids), len(rollouts[i].completion_ids)
        batch.append(i)
        prompt, completion = p, c
    if batch:
        yield batch


def _length(rollout: Rollout) -> int:
    return len(rollout.prompt_ids) + len(rollout.completion_ids)


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
    Noise of OAR-G is drawn from a private generator seeded by `seed`, a stream a rollout, so that batches do not matter.
    """
    from ..credit import TokenBytes, find_regions

    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    regions = [find_regions(r.completion_ids, token_bytes, settings.answer_span) for r in rollouts]
    found: list[Scored | None] = [None] * len(rollouts)
    pad_id = tokenizer.pad_token_id or 0
    for batch in length_batches(rollouts, batch_tokens):
        chosen = [rollouts[i] for i in batch]
        packed = pack(chosen, pad_id, model.device)
        credit = _credit(model, chosen, packed, [regions[i] for i in batch], settings, temperature, seed)
        read = token_readings(model, packed, temperature) if readings else (None, None)
        for row, i in enumerate(batch):
            n = len(rollouts[i].completion_ids)
            numbers = [None if values is None else values[row, :n].float().cpu().numpy()
                       for values in (credit.scores, credit.weights, *read)]
            texts = token_texts(rollouts[i].completion_ids, token_bytes, tokenizer)
            found[i] = _scored(rollouts[i], regions[i], token_bytes, texts, numbers, bool(credit.reweighted[row]))
        advance(len(batch))
    return [one for one in found if one is not None]


def _credit(model: PreTrainedModel, chosen: list[Rollout], packed: tuple[torch.Tensor, ...],
            regions: list[Regions | None], settings: CreditSettings, temperature: float, seed: int) -> Credit:
    """Weights under `settings`, and scores of every rollout with an answer, those left out of reweighting too."""
    import torch

    from ..credit import Credit, RolloutBatch, compute_credit

    advantages = torch.tensor([r.signed_advantage for r in chosen], device=model.device)
    keys = [row_key(r, seed) for r in chosen]
    credit = compute_credit(model, RolloutBatch(*packed, advantages, regions), settings, temperature, row_keys=keys)
    rest = [i for i, found in enumerate(regions) if found is not None and not credit.reweighted[i]]
    if not rest or settings.method == "grpo":
        return credit
    part = RolloutBatch(*(x[rest] for x in packed), advantages[rest], [regions[i] for i in rest])
    scores = credit.scores.clone()
    scores[rest] = compute_credit(model, part, settings.model_copy(update={"rollouts": "all"}), temperature,
                                  row_keys=[keys[i] for i in rest]).scores
    return Credit(credit.weights, scores, credit.reweighted)


def row_key(rollout: Rollout, seed: int) -> int:
    """The key of a rollout's private random stream: from its ids and the seed alone."""
    text = f"{seed}|{rollout.prompt_ids}|{rollout.completion_ids}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def token_readings(model: PreTrainedModel, packed: tuple[torch.Tensor, ...], temperature: float
                   ) -> tuple[torch.Tensor, torch.Tensor]:
    """Entropy and log-probability (nats, float32) of every completion token, (B, T) each, at the given temperature.

    A few rows at a time, so that the logits alive at once stay under READING_BYTES (one row at least).
    """
    import torch

    prompt_ids, prompt_mask, completion_ids, completion_mask = packed
    ids, mask = torch.cat([prompt_ids, completion_ids], 1), torch.cat([prompt_mask, completion_mask], 1)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    t = completion_ids.shape[1]
    rows = max(1, READING_BYTES // (8 * t * model.config.get_text_config().vocab_size))
    entropy, logprob = [], []
    with torch.no_grad():
        for i in range(0, len(ids), rows):
            part = slice(i, i + rows)
            logits = model(ids[part], attention_mask=mask[part], position_ids=positions[part], use_cache=False,
                           logits_to_keep=t + 1).logits[:, :-1]  # (b, T, V): what predicts each completion token
            for row, target in zip(logits, completion_ids[part], strict=True):
                logp = torch.log_softmax(row.float() / temperature, dim=-1)  # (T, V)
                logprob.append(logp.gather(-1, target[:, None])[:, 0])
                entropy.append(-torch.special.xlogy(logp.exp(), logp.exp()).sum(-1))
    return torch.stack(entropy), torch.stack(logprob)


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
