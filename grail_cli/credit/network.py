"""The policy as the credit pass needs it: unwrapped, frozen, in evaluation mode, and put back as it was.

No parameter gradient is formed: parameters are detached while the pass runs, so activations that only they
would need are not kept. Flags, modes, hooks and checkpointing functions return to what they were, also after
an exception.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .spans import CreditError


def unwrap(model: nn.Module) -> nn.Module:
    """The bare causal language model inside DDP, a DeepSpeed engine, torch.compile and PEFT.

    The engine's own forward counts steps and the wrapper's prepares a gradient exchange: neither belongs to
    the credit pass. LoRA layers sit inside the bare model and stay active.
    """
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(getattr(model, "module", None), nn.Module):
            model = model.module
        elif hasattr(model, "get_base_model"):
            if getattr(model.active_peft_config, "is_prompt_learning", False):
                raise CreditError(f"{model.active_peft_config.peft_type} adapters add virtual tokens, which shift "
                                  "every position; token credit needs an adapter inside the layers (LoRA)")
            model = model.get_base_model()
        else:
            return model


def is_sharded(model: nn.Module) -> bool:
    """Whether parameters are partitioned (ZeRO-3): then every process must run the same passes."""
    return any(hasattr(parameter, "ds_id") for parameter in model.parameters())


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """The stack of decoder layers: the first list with as many modules as the configuration has layers."""
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise CreditError(f"{type(model).__name__} has no list of {count} decoder layers; use leaf: embeddings")


def leaf_layer(leaf: str, count: int) -> int:
    """Which hidden state a leaf is: 0 the input embeddings, k the output of layer k (spec, section 3)."""
    return {"embeddings": 0, "first": 1, "middle": count // 2, "last": count - 1}[leaf]


@contextmanager
def frozen(model: nn.Module, *, checkpointed: bool, depth: int = 0,
           full_precision: bool = False) -> Iterator[None]:
    """Run the model without training it: no parameter gradient, no dropout, gradients of activations allowed.

    checkpointed: recompute the layers above `depth` in the backward pass, as training does, to save memory
    (never the re-entrant way, which cannot give a gradient of an activation). full_precision: switch autocast
    off, also the one that accelerate wraps around the forward method.
    """
    device = next(model.parameters()).device.type
    with ExitStack() as undo:
        for module in model.modules():
            if module.training:
                undo.callback(setattr, module, "training", True)
                module.training = False
        for parameter in model.parameters():
            if parameter.requires_grad:
                undo.callback(parameter.requires_grad_, True)
                parameter.requires_grad_(False)
        if checkpointed:
            recompute = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
            for layer in decoder_layers(model)[depth:]:
                if _can_recompute(layer):
                    for name, value in (("training", True), ("_gradient_checkpointing_func", recompute)):
                        undo.callback(setattr, layer, name, getattr(layer, name))
                        setattr(layer, name, value)
        if full_precision and "_original_forward" in vars(model):
            undo.callback(setattr, model, "forward", model.forward)
            model.forward = model._original_forward
        if full_precision:
            undo.enter_context(torch.autocast(device, enabled=False))
        undo.enter_context(torch.inference_mode(False))
        undo.enter_context(torch.enable_grad())
        yield


def _can_recompute(layer: nn.Module) -> bool:
    """Whether the layer checkpoints itself, and drops nothing out in its own forward when in training mode."""
    drops = any(isinstance(value, float) and value > 0 for name, value in vars(layer).items()
                if "dropout" in name)
    return getattr(layer, "gradient_checkpointing", False) and not drops


@contextmanager
def replaced_output(module: nn.Module, replace: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Pass the module's (first) output through `replace` on its way up."""

    def hook(_module, _args, output):
        if isinstance(output, Tensor):
            return replace(output)
        return (replace(output[0]), *output[1:])

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def replaced_input(module: nn.Module, replace: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Pass the module's (first) input through `replace` before it runs."""
    handle = module.register_forward_pre_hook(lambda _module, args: (replace(args[0]), *args[1:]))
    try:
        yield
    finally:
        handle.remove()


def head(model: nn.Module) -> nn.Module:
    """The layer that turns hidden states into logits. Raises CreditError when there is none."""
    found = model.get_output_embeddings()
    if found is None:
        raise CreditError(f"{type(model).__name__} has no output head; use a causal language model")
    return found


def leaf_module(model: nn.Module, leaf: str) -> tuple[nn.Module, int]:
    """The module whose output the leaf is, and how many decoder layers lie below it."""
    if leaf == "embeddings":
        return model.get_input_embeddings(), 0
    layers = decoder_layers(model)
    depth = leaf_layer(leaf, len(layers))
    return (layers[depth - 1] if depth else model.get_input_embeddings()), depth


def accepted(model: nn.Module) -> frozenset[str]:
    """The names of the model's forward arguments."""
    return frozenset(inspect.signature(type(model).forward).parameters)
