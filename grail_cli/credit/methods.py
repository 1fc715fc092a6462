"""Name -> method: how each way of giving credit turns rollouts into scores and weights.

A method is one function of a `Job` (compute.py) and one line in `METHODS`. It returns `(scores, weights)`,
both (B, T) with each row's tokens first; what padding holds does not matter. This module imports no torch by
itself, so that the settings can name the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from .compute import Job


def grpo(job: Job) -> tuple[Tensor, Tensor]:
    """Every token alike: the advantage as it is."""
    return job.zeros(), job.uniform()


def grail(job: Job) -> tuple[Tensor, Tensor]:
    """Tokens that the answer's likelihood hangs on (arXiv 2606.04889)."""
    scores = job.saliency()
    return scores, job.z_weights(scores)


def shuffled(job: Job) -> tuple[Tensor, Tensor]:
    """GRAIL's own weights, permuted among the reasoning tokens: the control that keeps all but the places."""
    scores = job.saliency()
    return scores, job.permuted(job.z_weights(scores))


def entropy(job: Job) -> tuple[Tensor, Tensor]:
    """The policy's entropy where it emits the token, mapped as GRAIL maps saliency."""
    scores = job.entropy()
    return scores, job.z_weights(scores)


def oar_g(job: Job) -> tuple[Tensor, Tensor]:
    """How far noise on the token moves the answer's distribution, to first order (arXiv 2601.07408)."""
    scores = job.oar_gradient()
    return scores, job.bilevel(scores)


def oar_p(job: Job) -> tuple[Tensor, Tensor]:
    """How far the answer's distribution moves when the token is replaced by the pad token."""
    scores = job.oar_replacement()
    return scores, job.bilevel(scores)


METHODS: dict[str, Callable[[Job], tuple[Tensor, Tensor]]] = {
    "grpo": grpo,
    "grail": grail,
    "oar_g": oar_g,
    "oar_p": oar_p,
    "entropy": entropy,
    "shuffled": shuffled,
}
