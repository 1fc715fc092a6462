"""Samples in this process with transformers: batches sorted by length, a generator of its own for every
sample.

Which samples share a batch is fixed by the problems and the sample index alone, never by what is already finished, so
that an interrupted run resumed gives the same samples, bit for bit. A batch shrinks as its rows finish.
"""

import random
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from .backend import Finished, Request, Sampling

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class TransformersBackend:
    """A model and tokenizer that are loaded; `batch_size` None is 16 on a CPU and by free memory on a GPU."""

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        sampling: Sampling,
        batch_size: int | None = None,
    ):
        self.model, self.tokenizer, self.sampling, self.batch_size = model, tokenizer, sampling, batch_size
        self.ends = end_ids(model, tokenizer)
        self.about = {
            "backend": "transformers",
            "device": str(model.device),
            "dtype": str(model.dtype).removeprefix("torch."),
        }

    def generate(
        self, requests: list[Request], done: Set[tuple[str, int]] = frozenset()
    ) -> Iterator[Finished]:
        """Samples as they finish. Raises RunFailed when memory runs out, naming the setting to lower.

        requests: all of the suite, finished ones included: they settle which samples share a batch.
        """
        for batch in batches(requests, self.batch_size or self._fitting(requests)):
            if all((request.problem_id, sample) in done for request, sample in batch):
                continue
            for finished in self._batch(batch):
                if (finished.problem_id, finished.sample) not in done:
                    yield finished

    def _fitting(self, requests: list[Request]) -> int:
        import torch

        if self.model.device.type != "cuda":
            return 16
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        per_token = 2 * config.num_hidden_layers * heads * size * self.model.dtype.itemsize
        longest = max(len(request.prompt_ids) for request in requests) + self.sampling.max_new_tokens
        free, _ = torch.cuda.mem_get_info(self.model.device)
        return max(1, min(256, int(0.6 * free) // (per_token * longest)))

    def _batch(self, batch: list[tuple[Request, int]]) -> Iterator[Finished]:
        import torch

        from ..errors import RunFailed

        try:
            with torch.inference_mode():
                yield from self._decode(batch)
        except torch.OutOfMemoryError:
            raise RunFailed(
                f"out of GPU memory with {len(batch)} sequences at once.",
                where="eval.batch_size",
                kind="out_of_memory",
                hint=f"--set eval.batch_size={max(1, len(batch) // 2)}, or a smaller eval.max_new_tokens; "
                f"finished "
                "samples are kept.",
            ) from None

    def _decode(self, batch: list[tuple[Request, int]]) -> Iterator[Finished]:
        """One batch to its end. Rows: samples still running; B of them, T tokens so far (left-padded prompt
        included).
        """
        import torch
        from transformers import DynamicCache

        device = self.model.device
        prompts = [request.prompt_ids for request, _ in batch]
        width = max(map(len, prompts))
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=device)  # (B, T)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)  # (B, T)
        cache = DynamicCache(config=self.model.config)
        rows = list(range(len(batch)))  # batch index of each row still running
        generators = [random.Random(request.seed + sample - request.first) for request, sample in batch]
        made: list[list[int]] = [[] for _ in batch]
        step_ids, positions = ids, (mask.cumsum(1) - 1).clamp(min=0)
        while rows:
            logits = self.model(
                input_ids=step_ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]  # (B, V)
            tokens = choose(logits, [generators[row].random() for row in rows], self.sampling)
            keep = []
            for place, (row, token) in enumerate(zip(rows, tokens, strict=True)):
                made[row].append(token)
                if token in self.ends or len(made[row]) >= self.sampling.max_new_tokens:
                    yield self._finished(*batch[row], made[row])
                else:
                    keep.append(place)
            if not keep:
                return
            lengths = positions[:, -1:] + 1
            if len(keep) < len(rows):
                index = torch.tensor(keep, device=device)
                cache.batch_select_indices(index)
                mask, lengths = mask[index], lengths[index]
                rows, tokens = [rows[place] for place in keep], [tokens[place] for place in keep]
            step_ids = torch.tensor(tokens, device=device)[:, None]  # (B, 1)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            positions = lengths

    def _finished(self, request: Request, sample: int, ids: list[int]) -> Finished:
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        reason = "stop" if ids[-1] in self.ends else "length"
        return Finished(
            request.problem_id,
            sample,
            request.seed + sample - request.first,
            text,
            ids,
            len(ids),
            reason,
            request.prompt_ids,
        )


def batches(requests: list[Request], size: int) -> list[list[tuple[Request, int]]]:
    """(request, sample) in batches: sample 0 of every problem first, shortest prompts together, then sample 1, ..."""
    planned = []
    for sample in sorted({s for r in requests for s in range(r.first, r.first + r.count)}):
        layer = sorted(
            (r for r in requests if r.first <= sample < r.first + r.count),
            key=lambda r: (len(r.prompt_ids), r.problem_id),
        )
        planned += [
            [(request, sample) for request in layer[start : start + size]]
            for start in range(0, len(layer), size)
        ]
    return planned


def choose(logits: "torch.Tensor", draws: list[float], sampling: Sampling) -> list[int]:
    """One token a row of logits (B, V): greedy at temperature 0, else by the row's uniform draw through the sorted
    probabilities, after temperature, top_k, top_p and min_p in that order."""
    import torch

    if sampling.temperature == 0:
        return logits.argmax(dim=-1).tolist()
    scaled = logits.float() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        scaled, places = scaled.topk(sampling.top_k, dim=-1)  # sorted, largest first
    else:
        scaled, places = scaled.sort(dim=-1, descending=True)
    chances = scaled.softmax(dim=-1).double()
    if sampling.top_p < 1:
        before = chances.cumsum(dim=-1) - chances
        chances = chances.masked_fill(before >= sampling.top_p, 0.0)  # the first is always kept
        chances = chances / chances.sum(dim=-1, keepdim=True)
    if sampling.min_p > 0:
        chances = chances.masked_fill(chances < sampling.min_p * chances[:, :1], 0.0)
    cumulative = chances.cumsum(dim=-1)
    wanted = torch.tensor(draws, dtype=torch.float64, device=logits.device)[:, None] * cumulative[:, -1:]
    rank = torch.searchsorted(cumulative, wanted, right=True)
    last = (chances > 0).sum(dim=-1, keepdim=True) - 1  # kept ones come first
    return places.gather(1, torch.minimum(rank, last))[:, 0].tolist()


def end_ids(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """The token ids that end a completion: those of the generation config (one or several) and the tokenizer's."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(token for token in [*ids, tokenizer.eos_token_id] if token is not None)
