"""Token credit: which tokens of a rollout receive how much of its advantage, as pure functions of tensors.

    settings = CreditSettings(method="grail", std=0.5)
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    regions = [find_regions(ids, token_bytes, settings.answer_span) for ids in completions]
    batch = RolloutBatch(prompt_ids, prompt_mask, completion_ids, completion_mask, advantages, regions)
    credit = compute_credit(model, batch, settings, temperature=1.0)
    credit.weights                                                     # (B, T): multiply the advantage by it

Names are looked up when they are first used: reading the settings imports no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batch import Credit, RolloutBatch
    from .compute import compute_credit, token_advantages
    from .methods import METHODS
    from .settings import CreditSettings
    from .spans import CreditError, Regions, find_regions
    from .tokens import TokenBytes

_HOME = {
    "CreditSettings": "settings", "METHODS": "methods", "TokenBytes": "tokens", "CreditError": "spans",
    "Regions": "spans", "find_regions": "spans", "RolloutBatch": "batch", "Credit": "batch",
    "compute_credit": "compute", "token_advantages": "compute",
}
__all__ = ["Credit", "CreditError", "CreditSettings", "METHODS", "Regions", "RolloutBatch", "TokenBytes",
           "compute_credit", "find_regions", "token_advantages"]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
