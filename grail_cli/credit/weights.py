"""Scores to weights: GRAIL's z-score map with its pins, OAR's bi-level reshaping. Pure functions.

B rollouts, T tokens; `mask` (B, T) is true at a completion's tokens. The arithmetic runs in float64: with
equal scores the variance is nothing but rounding, and float32 would turn that rounding into weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-8  # of the logarithm, the variance and the mass (spec, sections 4 and 5)


def z_weights(scores: Tensor, mask: Tensor, *, mean: float = 1.0, std: float = 0.5, w_min: float = 0.5,
              w_max: float = 5.0) -> Tensor:
    """GRAIL's map: `clip(mean + std * z, w_min, w_max)`, z the standardised log score, a row at a time.

    scores (B, T) >= 0; mask (B, T): the tokens that mean and variance are taken over (spec, section 4; every
    token gets a weight, those outside the mask too). A row whose mask is empty gets `mean`. Returns (B, T)
    float64.
    """
    logs = torch.log(scores.double() + EPS)
    count = mask.sum(-1, keepdim=True).clamp(min=1)
    centre = torch.where(mask, logs, 0.0).sum(-1, keepdim=True) / count
    variance = torch.where(mask, (logs - centre) ** 2, 0.0).sum(-1, keepdim=True) / count
    z = (logs - centre) / torch.sqrt(variance + EPS)
    weights = (mean + std * z).clamp(w_min, w_max)
    return torch.where(mask.any(-1, keepdim=True), weights, torch.full_like(weights, mean))


def pin(weights: Tensor, content: Tensor, fixed: Tensor, *, mean: float, w_max: float) -> Tensor:
    """Give content tokens `w_max` and fixed ones (boundary, after the answer) `mean`; all are (B, T)."""
    return weights.masked_fill(fixed, mean).masked_fill(content, w_max)


def bilevel_weights(scores: Tensor, mask: Tensor, *, tau: float = 0.4, beta: float = 2.0,
                    eps: float = 1e-12) -> Tensor:
    """OAR's reshaping (spec, section 5): tokens below the quantile tau are damped, others boosted, mass kept.

    scores (B, T) >= 0, mask (B, T) the tokens of each completion. Returns (B, T) float64 whose sum over a row
    is its number of tokens; 0 outside the mask. Equal scores give equal weights.
    """
    count = mask.sum(-1, keepdim=True)
    logs = torch.log1p(scores.double())
    low = logs.masked_fill(~mask, torch.inf).amin(-1, keepdim=True)
    high = logs.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    spread = torch.where(mask, (logs - low) / (high - low + eps), torch.inf)  # in [0, 1], padding sorts last
    index = (tau * count).long().minimum((count - 1).clamp(min=0))
    quantile = spread.sort(-1).values.gather(-1, index)
    damped = (spread / (quantile + eps)).clamp(min=0.1)
    boosted = 1 + beta * (spread - quantile) / (1 - quantile + eps)
    weights = torch.where(mask, torch.where(spread < quantile, damped, boosted), 0.0)
    return weights * (count / (weights.sum(-1, keepdim=True) + EPS))


def permute_weights(weights: Tensor, chosen: Tensor, keys: list[int]) -> Tensor:
    """Permute each row's weights among its chosen tokens, seeded by the row's own key.

    weights, chosen (B, T); keys: B integers. A row's permutation depends on its key and its number of chosen
    tokens alone, not on the batch or the process. The global random generator is not touched.
    """
    result = weights.clone()
    for row, key in enumerate(keys):
        places = chosen[row].nonzero().squeeze(-1)
        order = torch.randperm(len(places), generator=torch.Generator().manual_seed(key))
        result[row, places] = weights[row, places[order.to(places.device)]]
    return result
