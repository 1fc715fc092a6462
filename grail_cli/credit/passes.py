"""Forward passes over rollouts that compute no more than credit needs, in chunks that fit a memory budget.

Three savings, all exact. Nothing after the last token that matters is read. Logits are formed at the wanted
positions only: the head gets to see no other. A prompt's keys and values are computed once for all its
rollouts, without a gradient: a causal model's loss reaches the embeddings of later positions only through
those positions. Rows are padded on the right, where causal attention never looks: only prompts of unequal
length need a mask. Rows of so unlike length that padding would cost more than another pass go apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from .batch import Row
from .network import accepted, frozen, head, is_sharded, leaf_module, replaced_input, replaced_output

LEAST_BUDGET = 2**31  # bytes of one chunk
PASS_COSTS = {"cpu": 128, "cuda": 1024}  # tokens whose passes take as long as one pass more takes by itself


def default_budget(model: nn.Module) -> int:
    """A tenth of weights, gradients and AdamW's moments in bytes, at least 2 GiB.

    A function of the model alone, not of what happens to be free: a resumed run chunks alike.
    """
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return max(LEAST_BUDGET, 4 * weights // 10)


@dataclass(frozen=True)
class Read:
    """One row of a pass: its prompt but for the last token, what is read from there, what is wanted of it.

    suffix: the prompt's last token and the completion tokens that are read. wanted: places in it whose logits
    are formed; place t is position P - 1 + t, which emits completion token t.
    """

    row: Row
    suffix: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def prefix(self) -> tuple[int, ...]:
        return self.row.prompt[:-1]


@dataclass(frozen=True)
class Chunk:
    """Rows that go through the network together.

    shared: their prompts are read once and cached. checkpointed: layers are recomputed on the way back. idle:
    nothing is wanted of it, another process has a chunk more.
    """

    reads: tuple[Read, ...]
    shared: bool = False
    checkpointed: bool = False
    idle: bool = False

    @property
    def real(self) -> tuple[Read, ...]:
        return () if self.idle else self.reads

    @property
    def width(self) -> int:
        """Columns of the main pass."""
        return max(self.start(read) + len(read.suffix) for read in self.reads)

    @property
    def padding(self) -> int:
        """Tokens of the main pass that are none."""
        return sum(self.width - self.start(read) - len(read.suffix) for read in self.reads)

    @property
    def wanted(self) -> int:
        """Positions whose logits are formed."""
        return sum(len(read.wanted) for read in self.reads)

    def start(self, read: Read) -> int:
        """The column of the suffix's first token."""
        return 0 if self.shared else len(read.prefix)


class Passes:
    """Runs a frozen model over rollouts. `leaf` names the hidden state that `edit` functions get to see.

    It remembers what it read of prompts, in up to a quarter of the budget: make another when weights have changed.
    """

    def __init__(self, model: nn.Module, *, leaf: str = "embeddings", budget: int | None = None,
                 full_precision: bool = False):
        self.model, self.full_precision = model, full_precision
        self.budget = default_budget(model) if budget is None else budget
        self.module, self.depth = leaf_module(model, leaf)
        self.head, self.device = head(model), next(model.parameters()).device
        self.sharded = is_sharded(model)
        self.config = model.config.get_text_config()
        self.recomputes = bool(getattr(model, "is_gradient_checkpointing", False))
        # a partitioned model's processes must call the same modules equally often, and their prompts differ
        self.shares = not self.sharded and _has_plain_cache(model)
        self.pass_cost = PASS_COSTS.get(self.device.type, max(PASS_COSTS.values()))
        self._known: dict[tuple[int, ...], KeysAndValues] = {}
        self._held = 0  # bytes of what is known

    def chunks(self, reads: Sequence[Read], *, grad: bool = True) -> Iterator[Chunk]:
        """Cut rows into chunks within the budget; run each inside `frozen(chunk)`.

        Processes that share one partitioned model all get as many chunks as the one with the most.
        """
        chunks = min((self._cut(order, grad) for order in self._orders(reads)), key=self._cost)
        idle = 0
        if self.sharded and torch.distributed.is_initialized():
            # agreed on before the first pass: a process without any would wait here, the others inside theirs
            most = torch.tensor(len(chunks), device=self.device)
            torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX)
            idle = int(most) - len(chunks)
        yield from chunks
        nothing = Read(Row(-1, (0,), (0,), None), (0,), (0,))
        for _ in range(idle):
            yield Chunk((nothing,), checkpointed=self.recomputes and grad, idle=True)

    def frozen(self, chunk: Chunk) -> AbstractContextManager[None]:
        """The model frozen for this chunk, and put back afterwards."""
        return frozen(self.model, checkpointed=chunk.checkpointed, depth=self.depth,
                      full_precision=self.full_precision)

    def prefix(self, chunk: Chunk) -> Prefix | None:
        """Keys and values of the chunk's prompts, for calls of `logits`; None when they are not shared."""
        if not chunk.shared:
            return None
        prompts = {read.prefix: self._known.get(read.prefix) for read in chunk.reads}
        new = [prompt for prompt, known in prompts.items() if known is None]
        for prompt, read in zip(new, self._read(new) if new else ()):
            prompts[prompt] = read
            if self._held + self._cached(prompt) <= self.budget // 4:
                self._known[prompt] = read
                self._held += self._cached(prompt)
        return Prefix([prompts[read.prefix] for read in chunk.reads])

    def _read(self, prompts: Sequence[tuple[int, ...]]) -> list[KeysAndValues]:
        """Keys and values of prompts, each layer's cut to the prompt's length."""
        ids, _ = _padded(prompts, self.device)
        with torch.no_grad(), replaced_input(self.head, lambda hidden: hidden[:, :1]):
            cache = self.model(input_ids=ids, past_key_values=_empty_cache(), use_cache=True).past_key_values
        return [[(layer.keys[i, :, :len(prompt)], layer.values[i, :, :len(prompt)]) for layer in cache.layers]
                for i, prompt in enumerate(prompts)]

    def _cached(self, prompt: tuple[int, ...]) -> int:
        """Bytes of a prompt's keys and values."""
        heads = getattr(self.config, "num_key_value_heads", None) or self.config.num_attention_heads
        size = getattr(self.config, "head_dim", None) or self.config.hidden_size // self.config.num_attention_heads
        number = next(self.model.parameters()).element_size()
        return 2 * self.config.num_hidden_layers * heads * size * number * len(prompt)

    def logits(self, chunk: Chunk, prefix: Prefix | None,
               edit: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Logits (N, V) of the N wanted positions, row after row; `edit` rewrites the leaf (n, width, d)."""
        wanted = [(index, chunk.start(read) + place)
                  for index, read in enumerate(chunk.reads) for place in read.wanted]
        rows, columns = torch.tensor(wanted, device=self.device).T
        if prefix is None:
            ids, _ = _padded([read.prefix + read.suffix for read in chunk.reads], self.device)
            inputs: dict = {"use_cache": False}
        else:
            ids, _ = _padded([read.suffix for read in chunk.reads], self.device)
            before = prefix.mask(self.device)
            after = torch.arange(ids.shape[1], device=self.device)
            inputs = {"attention_mask": torch.cat([before, torch.ones_like(ids)], dim=-1), "use_cache": True,
                      "position_ids": before.sum(-1, keepdim=True) + after, "past_key_values": prefix.cache()}
        with ExitStack() as hooks:
            hooks.enter_context(replaced_input(self.head, lambda hidden: hidden[rows, columns].unsqueeze(0)))
            if edit is not None:
                hooks.enter_context(replaced_output(self.module, edit))
            return self.model(input_ids=ids, **inputs).logits[0]

    def _cost(self, chunks: list[Chunk]) -> int:
        """What chunks cost, in token passes: a prompt that is kept once and forward only, the rest both ways."""
        total, held, known = 0, self._held, set(self._known)
        for chunk in chunks:
            total += 2 * chunk.width * len(chunk.reads) + self.pass_cost
            for prompt in {read.prefix for read in chunk.reads} - known if chunk.shared else ():
                total += len(prompt)
                if held + self._cached(prompt) <= self.budget // 4:
                    held += self._cached(prompt)
                    known.add(prompt)
        return total

    def _orders(self, reads: Sequence[Read]) -> list[list[Read]]:
        """Rows of like length together, which pads little, or of one prompt together, which reads it once."""
        by_length = sorted(reads, key=lambda read: (len(read.suffix), read.prefix, read.row.index))
        by_prompt = sorted(reads, key=lambda read: (read.prefix, len(read.suffix), read.row.index))
        return [by_length, by_prompt] if self.shares else [by_length]

    def _cut(self, reads: Sequence[Read], grad: bool) -> list[Chunk]:
        chunks: list[Chunk] = []
        slack = float("inf") if self.sharded else self.pass_cost  # each pass over a partitioned model gathers it
        for read in reads:
            longer = self._chunk((*chunks[-1].reads, read), grad) if chunks else None
            # two chunks cost less than one whose layers are recomputed
            if (longer is not None and longer.checkpointed == chunks[-1].checkpointed
                    and longer.padding <= slack
                    and self.estimate(longer, grad) <= self.budget):
                chunks[-1] = longer
            else:
                chunks.append(self._chunk((read,), grad))
        return chunks

    def _chunk(self, reads: tuple[Read, ...], grad: bool) -> Chunk:
        """The cheapest way to run rows: prompts shared where that works, recomputation where it must be."""
        shared = Chunk(reads, shared=self.shares and all(read.prefix for read in reads))
        if grad and self.recomputes and (self.sharded or self.estimate(shared, grad) > self.budget):
            return Chunk(reads, checkpointed=True)  # a layer that is recomputed would fill its cache twice
        return shared

    def estimate(self, chunk: Chunk, grad: bool = True) -> int:
        """About how many bytes a chunk holds at its peak: activations for the way back, and its logits."""
        hidden = self.config.hidden_size
        inner = getattr(self.config, "intermediate_size", None) or 4 * hidden
        layers = self.config.num_hidden_layers - self.depth
        layer = 14 * hidden + 4 * inner  # numbers a token and layer, measured on Llama and Qwen3
        if getattr(self.config, "_attn_implementation", None) == "eager":  # it keeps the attention map
            keys = max(len(read.prefix) + len(read.suffix) for read in chunk.reads)
            layer += self.config.num_attention_heads * keys
        kept = layer * layers if grad and not chunk.checkpointed else layer + hidden * layers
        size = next(self.model.parameters()).element_size()
        return len(chunk.reads) * chunk.width * kept * size + chunk.wanted * self.config.vocab_size * 12


KeysAndValues = list[tuple[Tensor, Tensor]]  # (heads, tokens, head size) each, a layer


@dataclass(frozen=True)
class Prefix:
    """What each of a chunk's n rows has before it, of unequal length."""

    rows: list[KeysAndValues]

    def mask(self, device: torch.device) -> Tensor:
        """Which of the columns (n, longest) are tokens."""
        lengths = torch.tensor([layers[0][0].shape[1] for layers in self.rows], device=device)
        return (torch.arange(int(lengths.max()), device=device) < lengths[:, None]).long()

    def cache(self):
        """A fresh cache for the chunk's rows: a pass appends to it."""
        cache = _empty_cache()
        for index, layer in enumerate(zip(*self.rows, strict=True)):
            cache.update(*(_stacked(tensors) for tensors in zip(*layer, strict=True)), index)
        return cache


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors (heads, tokens, size) as one (n, heads, longest, size), zeros on the right."""
    return pad_sequence([tensor.transpose(0, 1) for tensor in tensors], batch_first=True).transpose(1, 2)


def _empty_cache():
    from transformers import DynamicCache

    return DynamicCache()


def _has_plain_cache(model: nn.Module) -> bool:
    """Whether the model keeps all keys and values of every layer (no window, no recurrent state)."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    if not {"past_key_values", "position_ids"} <= accepted(model):
        return False
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask (n, L), rows padded with id 0 on the right; what the padding's id is does not matter."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=device)
    return ids, mask
