"""Saliency out of the policy's own forward pass: one backward pass more, and no second forward.

    with listening(model, settings.leaf) as tap:
        logps = ...the forward pass of the policy loss...
    credit = compute_credit(model, batch, settings, temperature, tap=tap)

It costs the whole batch a backward pass, where the separate pass costs the chosen rollouts a forward and a
backward one over fewer tokens. So it pays when most rollouts are chosen, and never when layers are recomputed
on the way back, which they would be twice: `pays` says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .batch import RolloutBatch, Row
from .network import head, leaf_module, replaced_output, unwrap
from .saliency import wide

_LOGIT_RULES = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier",
                "logits_scaling")


@dataclass
class Tap:
    """What a forward pass left behind: the leaf and the last hidden states, both (B, P + T, d)."""

    leaf: Tensor | None = None
    hidden: Tensor | None = None


def pays(model: nn.Module, chosen: float) -> bool:
    """Whether to fuse, for a share `chosen` of rollouts that get scores (0 to 1).

    False where it would be dearer than the separate pass (few rollouts, recomputed layers) or not exact:
    dropout at work, logits that are more than the head's output, a model inside another engine than DDP.
    """
    bare = unwrap(model)
    engine = hasattr(model, "module") and not isinstance(model, nn.parallel.DistributedDataParallel)
    config = bare.config.get_text_config()
    return (chosen > 0.7 and not engine and not getattr(bare, "is_gradient_checkpointing", False)
            and all(getattr(config, rule, None) in (None, 1.0) for rule in _LOGIT_RULES)
            and not any(isinstance(m, nn.Dropout) and m.training and m.p > 0 for m in bare.modules())
            and not any(getattr(config, name, 0.0) for name in vars(config) if "drop" in name))


@contextmanager
def listening(model: nn.Module, leaf: str = "embeddings") -> Iterator[Tap]:
    """Record the next forward pass of the model (wrapped or bare); what it computes does not change."""
    bare, tap = unwrap(model), Tap()
    module, _ = leaf_module(bare, leaf)

    def keep_leaf(output: Tensor) -> Tensor:
        tap.leaf = output if output.requires_grad else output.detach().requires_grad_()  # frozen under LoRA
        return tap.leaf

    def keep_hidden(_module, _args, output) -> None:
        tap.hidden = output[0]

    with ExitStack() as hooks:
        hooks.enter_context(replaced_output(module, keep_leaf))
        hooks.callback(bare.base_model.register_forward_hook(keep_hidden).remove)
        yield tap


def fused_saliency(tap: Tap, model: nn.Module, batch: RolloutBatch, rows: Sequence[Row], *,
                   temperature: float, alignment: str) -> dict[int, Tensor]:
    """As `saliency.saliency`, from a recorded pass over the batch's columns. Keeps the graph."""
    if not rows:
        return {}
    mask = torch.cat([batch.prompt_mask, batch.completion_mask], dim=1).bool()
    columns = {row.index: mask[row.index].nonzero().squeeze(-1) for row in rows}  # of the row's real tokens
    wanted = [(row.index, columns[row.index][len(row.prompt) + token - 1], row.completion[token])
              for row in rows for token in row.regions.answer]
    index, column, labels = torch.tensor(wanted, device=tap.hidden.device).T
    with torch.enable_grad():
        logits = head(model)(tap.hidden[index, column])
        loss = functional.cross_entropy(wide(logits) / temperature, labels, reduction="sum")
    gradient, = torch.autograd.grad(loss, tap.leaf, retain_graph=True)
    by_position = (wide(gradient) * wide(tap.leaf.detach())).norm(dim=-1)  # (B, P + T)
    shift = {"predictor": -1, "token": 0}[alignment]
    scores = {}
    for row in rows:
        places = columns[row.index][len(row.prompt) + shift:][:len(row.completion)]
        scores[row.index] = by_position[row.index][places]
    return scores
