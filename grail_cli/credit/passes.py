"""Forward passes over rollouts that compute no more than credit needs, in chunks that fit a memory budget.

Three savings, all exact. Nothing after the last token that matters is read. Logits are formed at the last `keep`
positions only: rows are padded on the left, so that the answers end in the same column. A prompt's keys and values are
computed once for all its rollouts, without a gradient: a causal model's loss reaches the embeddings of later positions
only through those positions. Processes that share one partitioned model (ZeRO-3) run the same number of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .batch import Row
from .network import accepted, frozen, is_sharded, leaf_module, replaced_output

BUDGET = 2 * 2**30  # bytes of activations and logits of one chunk; a constant, so that a resumed run chunks alike


@dataclass(frozen=True)
class Read:
    """One row of a pass: its prompt but for the last token, what is read from there on, and what is kept of it.

    suffix: the prompt's last token and the completion tokens that are read. keep: trailing positions with logits.
    """

    row: Row
    suffix: tuple[int, ...]
    keep: int

    @property
    def prefix(self) -> tuple[int, ...]:
        return self.row.prompt[:-1]


@dataclass(frozen=True)
class Chunk:
    """Rows that go through the network together; `keep` is the largest of theirs."""

    reads: tuple[Read, ...]
    checkpointed: bool = False
    padding: bool = False  # run only because another process has a chunk more

    @property
    def real(self) -> tuple[Read, ...]:
        """The rows whose result is wanted."""
        return () if self.padding else self.reads

    @property
    def keep(self) -> int:
        return max(read.keep for read in self.reads)

    @property
    def width(self) -> int:
        return max(len(read.suffix) for read in self.reads)


class Passes:
    """Runs a frozen model over rollouts. `leaf` names the hidden state that `edit` functions get to see."""

    def __init__(self, model: nn.Module, *, leaf: str = "embeddings", budget: int | None = None,
                 full_precision: bool = False):
        self.model, self.budget, self.full_precision = model, BUDGET if budget is None else budget, full_precision
        self.module, self.depth = leaf_module(model, leaf)
        self.device = next(model.parameters()).device
        self.names, self.sharded = accepted(model), is_sharded(model)
        self.config = model.config.get_text_config()
        self.shares = not self.sharded and _has_plain_cache(self.config, self.names)

    def chunks(self, reads: Sequence[Read], *, grad: bool = True) -> Iterator[Chunk]:
        """Cut rows into chunks within the budget; run each inside `frozen(chunk)`."""
        recompute = bool(getattr(self.model, "is_gradient_checkpointing", False)) and grad
        return self._in_lockstep(self._plan(reads, recompute, grad), recompute)

    def frozen(self, chunk: Chunk) -> AbstractContextManager[None]:
        """The model frozen for this chunk, and put back afterwards."""
        return frozen(self.model, checkpointed=chunk.checkpointed, depth=self.depth, full_precision=self.full_precision)

    def prefix(self, chunk: Chunk) -> _Prefix | None:
        """Keys and values of the chunk's prompts, to be reused by several calls of `logits`; None when not shared."""
        longest = max(len(read.prefix) for read in chunk.reads)
        if not self.shares or chunk.checkpointed or not longest:
            return None
        prompts = list(dict.fromkeys(read.prefix for read in chunk.reads))
        ids, mask = _left_padded(prompts, self.device)
        with torch.no_grad():
            cache = self._call(ids, mask, mask.cumsum(-1) - 1, keep=1, past_key_values=_empty_cache()).past_key_values
        which = torch.tensor([prompts.index(read.prefix) for read in chunk.reads], device=self.device)
        return _Prefix([(layer.keys, layer.values) for layer in cache.layers], mask, which)

    def logits(self, chunk: Chunk, prefix: _Prefix | None, edit: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Logits (n, keep, V) at each row's last positions, right-aligned; `edit` rewrites the leaf (n, width+, d)."""
        if prefix is None:
            ids, mask = _left_padded([read.prefix + read.suffix for read in chunk.reads], self.device)
            positions, cache = mask.cumsum(-1) - 1, {}
        else:
            ids, mask = _left_padded([read.suffix for read in chunk.reads], self.device)
            before = prefix.mask[prefix.which]
            positions = before.sum(-1, keepdim=True) + mask.cumsum(-1) - 1
            mask, cache = torch.cat([before, mask], dim=-1), {"past_key_values": prefix.cache()}
        with replaced_output(self.module, edit) if edit else torch.enable_grad():
            return self._call(ids, mask, positions, keep=chunk.keep, **cache).logits[:, -chunk.keep:]

    def _call(self, ids: Tensor, mask: Tensor, positions: Tensor, *, keep: int, **cache):
        wanted = {"position_ids": positions.clamp(min=0), "logits_to_keep": keep, "use_cache": bool(cache), **cache}
        return self.model(input_ids=ids, attention_mask=mask,
                          **{name: value for name, value in wanted.items() if name in self.names})

    def _plan(self, reads: Sequence[Read], recompute: bool, grad: bool) -> list[Chunk]:
        """Rows of like length together, or of one prompt together when that reads fewer tokens."""
        by_length = sorted(reads, key=lambda read: (len(read.suffix), read.prefix, read.row.index))
        by_prompt = sorted(reads, key=lambda read: (read.prefix, len(read.suffix), read.row.index))
        plans = [self._cut(order, recompute, grad) for order in ((by_length, by_prompt) if self.shares else (by_length,))]
        return min(plans, key=self._cost)

    def _cut(self, reads: Sequence[Read], recompute: bool, grad: bool) -> list[Chunk]:
        chunks, current = [], []
        for read in reads:
            if current and self._bytes([*current, read], grad) > self.budget:
                chunks.append(self._chunk(current, recompute, grad))
                current = []
            current.append(read)
        return chunks + [self._chunk(current, recompute, grad)] if current else chunks

    def _chunk(self, reads: list[Read], recompute: bool, grad: bool) -> Chunk:
        over = self._bytes(reads, grad) > self.budget
        return Chunk(tuple(reads), checkpointed=recompute and (over or self.sharded))

    def _cost(self, chunks: list[Chunk]) -> int:
        """Tokens read: a shared prompt once a chunk and forward only, the rest forward and back."""
        return sum(sum(len(prompt) for prompt in {read.prefix for read in chunk.reads})
                   + 2 * chunk.width * len(chunk.reads) for chunk in chunks)

    def _bytes(self, reads: Sequence[Read], grad: bool) -> int:
        """An estimate of what a chunk holds at its peak: activations kept for the way back, and its logits."""
        chunk = Chunk(tuple(reads))
        width = chunk.width if self.shares else max(len(read.prefix) + len(read.suffix) for read in reads)
        size, config = next(self.model.parameters()).element_size(), self.config
        hidden = config.hidden_size
        inner = getattr(config, "intermediate_size", None) or 4 * hidden
        layers = max(1, config.num_hidden_layers - self.depth) if grad else 1
        token = size * layers * (14 * hidden + 4 * inner)
        return len(reads) * (width * token + chunk.keep * config.vocab_size * 12)

    def _in_lockstep(self, chunks: list[Chunk], recompute: bool) -> Iterator[Chunk]:
        """The chunks; with a partitioned model as many as the process with the most has, one at a time."""
        if not self.sharded or not torch.distributed.is_initialized():
            yield from chunks
            return
        most = torch.tensor(len(chunks), device=self.device)
        torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX)
        yield from chunks
        idle = Chunk((Read(Row(-1, (0,), (0,), None), (0,), 1),), checkpointed=recompute, padding=True)
        for _ in range(int(most) - len(chunks)):
            yield idle


@dataclass(frozen=True)
class _Prefix:
    """Keys and values (u, heads, P-1, head size) a layer of u distinct prompts, their mask, and each row's prompt."""

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor
    which: Tensor

    def cache(self):
        """A fresh cache for the chunk's rows: a pass appends to it."""
        cache = _empty_cache()
        for index, (keys, values) in enumerate(self.layers):
            cache.update(keys[self.which], values[self.which], index)
        return cache


def _empty_cache():
    from transformers import DynamicCache

    return DynamicCache()


def _has_plain_cache(config, names: frozenset[str]) -> bool:
    """Whether the model keeps all keys and values of every layer (no window, no recurrent state)."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    if "past_key_values" not in names or "position_ids" not in names:
        return False
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)


def _left_padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask (n, L), rows padded with id 0 on the left; what the padding's id is does not matter."""
    width = max(1, max(len(row) for row in rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for index, row in enumerate(rows):
        if row:
            ids[index, -len(row):] = torch.tensor(row)
            mask[index, -len(row):] = 1
    return ids.to(device), mask.to(device)
