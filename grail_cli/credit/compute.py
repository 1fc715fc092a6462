"""From a batch of rollouts to token weights: picks the rollouts, runs the method, restores the padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from . import weights as maps
from .batch import Credit, Row, RolloutBatch, row_keys_of, rows_of, to_columns
from .methods import METHODS
from .network import unwrap
from .settings import CreditSettings
from .spans import CreditError

if TYPE_CHECKING:
    from .fused import Tap


def compute_credit(model: nn.Module, batch: RolloutBatch, settings: CreditSettings, temperature: float = 1.0,
                   generator: torch.Generator | None = None, row_keys: Sequence[int] | None = None, *,
                   skip_known: bool = False, budget: int | None = None, method: Callable | None = None,
                   tap: Tap | None = None) -> Credit:
    """The token weights of a batch under `settings.method`; the model and all random state stay as they are.

    model: a causal language model of transformers, bare or inside DDP, DeepSpeed (ZeRO-2, ZeRO-3) or PEFT.
    temperature: the run's sampling temperature, used where `settings.temperature` is null.
    generator: a private generator that one seed is drawn from; row_keys: B integers. Both only serve methods
        that draw numbers. By default a rollout's key is a hash of its own ids: the same in any batch, on every
        rank and after a resume.
    skip_known: leave out rollouts whose weights cannot matter or are known (advantage 0, or left out by
        `settings.rollouts`); their scores are 0. Training does this.
    budget: bytes that a chunk's activations and logits may take (default: a tenth of the training state).
    method: a function of a Job instead of the one that `settings.method` names.
    tap: the policy's own forward pass over this batch (fused.py), which saliency is then taken from.

    Raises CreditError when the batch or the model does not allow an exact result. Never returns NaN: a
    rollout whose scores are not finite is left uniform.
    """
    job = Job(unwrap(model), batch, settings, temperature, generator, row_keys, skip_known, budget, tap)
    scores, weights = (method or METHODS[settings.method])(job)
    shaped = job.shaped(scores) if job.touched else torch.zeros_like(job.active)
    scores = torch.where(job.mask & torch.isfinite(scores).all(-1, keepdim=True), scores, 0.0)
    return Credit(weights=to_columns(weights, batch).float(), scores=to_columns(scores, batch).float(),
                  reweighted=shaped)


def token_advantages(advantages: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """What the surrogate takes: `A_i * w_it` (B, T), or `A_i` (B,) as it is when every token's weight is 1.

    advantages (B,), weights (B, T), mask (B, T). The second case makes uniform weights plain GRPO to the last
    bit also where the ratio is one a sequence: there (B, T) sums the same products in another order.
    """
    if torch.where(mask.bool(), weights == 1, True).all():
        return advantages
    return advantages[:, None] * weights.to(advantages.dtype)


def chosen(batch: RolloutBatch, settings: CreditSettings, *, skip_known: bool = True) -> Tensor:
    """The rollouts (B,) whose tokens get weights of their own: with an answer, picked by `settings.rollouts`, and with
    skip_known also an advantage that weights can change.
    """
    advantages = batch.advantages.to(batch.completion_ids.device)
    picked = {"wrong": advantages <= 0, "correct": advantages > 0,
              "all": torch.ones_like(advantages, dtype=torch.bool)}[settings.rollouts]
    return _answered(batch) & picked & ((advantages != 0) | (not skip_known))


def _answered(batch: RolloutBatch) -> Tensor:
    """Rollouts (B,) with an answer and tokens: one that is masked as a whole has none."""
    found = torch.tensor([regions is not None for regions in batch.regions], dtype=torch.bool,
                         device=batch.completion_ids.device)
    return found & batch.completion_mask.bool().any(dim=1)


class Job:
    """What a method gets to see: B rollouts, each row's T tokens first, then padding; and ways to score them.

    mask (B, T) bool: the tokens. active (B,) bool: rollouts with an answer that `settings.rollouts` picks.
    reasoning, content, fixed (B, T) bool: before the answer; inside its braces; its others and after.
    """

    def __init__(self, model: nn.Module, batch: RolloutBatch, settings: CreditSettings,
                 temperature: float = 1.0, generator: torch.Generator | None = None,
                 row_keys: Sequence[int] | None = None,
                 skip_known: bool = False, budget: int | None = None, tap: Tap | None = None):
        self.model, self.batch, self.settings, self.budget, self.tap = model, batch, settings, budget, tap
        self.temperature = settings.temperature or temperature
        self.rows = rows_of(batch)
        self._generator, self._row_keys = generator, row_keys
        self.device = batch.completion_ids.device
        self.active = chosen(batch, settings, skip_known=skip_known)
        self.scored = self.active if skip_known else _answered(batch)
        self.touched = False
        lengths = torch.tensor([len(row.completion) for row in self.rows], device=self.device)
        columns = torch.arange(batch.completion_ids.shape[1], device=self.device)
        self.position = columns.expand(len(self.rows), -1)
        self.mask = self.position < lengths[:, None]
        self.reasoning, self.content, self.fixed = self._regions()

    def zeros(self) -> Tensor:
        return torch.zeros(self.mask.shape, device=self.device)

    def uniform(self) -> Tensor:
        return torch.ones(self.mask.shape, dtype=torch.float64, device=self.device)

    def saliency(self) -> Tensor:
        """GRAIL's scores (B, T), 0 for rollouts that need none."""
        from .fused import fused_saliency
        from .saliency import saliency

        how = {"temperature": self.temperature, "alignment": self.settings.alignment}
        if self.tap is not None:
            return self._spread(fused_saliency(self.tap, self.model, self.batch, self._chosen, **how))
        return self._spread(saliency(self._passes(self.settings.leaf), self._chosen, **how))

    def entropy(self) -> Tensor:
        """The entropy (B, T), in nats, of the distribution that each token was drawn from."""
        from .entropy import entropy

        return self._spread(entropy(self._passes(), self._chosen, temperature=self.temperature,
                                    alignment=self.settings.alignment))

    def oar_gradient(self) -> Tensor:
        """OAR-G's scores (B, T)."""
        from .oar import oar_gradient

        settings = self.settings
        return self._spread(oar_gradient(
            self._passes(full_precision=True), self._chosen, alignment=settings.alignment, eps=settings.oar_eps,
            noise_std=settings.oar_noise_std, draws=settings.oar_draws, keys=self.keys))

    def oar_replacement(self) -> Tensor:
        """OAR-P's scores (B, T)."""
        from .oar import oar_replacement

        return self._spread(oar_replacement(self._passes(full_precision=True), self._chosen,
                                            eps=self.settings.oar_eps, pad_id=self._pad_id()))

    def z_weights(self, scores: Tensor) -> Tensor:
        """GRAIL's map of scores to weights (B, T), pins included."""
        settings, active = self.settings, self.shaped(scores)[:, None]
        counted = self.mask
        if settings.stats == "reasoning":
            counted = torch.where(self.reasoning.any(-1, keepdim=True), self.reasoning, self.mask)
        mapped = maps.z_weights(scores.nan_to_num(0.0, 0.0, 0.0), counted, mean=settings.mean,
                                std=settings.std, w_min=settings.w_min, w_max=settings.w_max)
        pinned = active if settings.pin == "reweighted" else torch.ones_like(active)
        return maps.pin(torch.where(active, mapped, 1.0), self.content & pinned, self.fixed & pinned,
                        mean=settings.mean, w_max=settings.w_max)

    def bilevel(self, scores: Tensor) -> Tensor:
        """OAR's map of scores to weights (B, T); rollouts without an answer get ones."""
        settings, active = self.settings, self.shaped(scores)[:, None]
        mapped = maps.bilevel_weights(scores.nan_to_num(0.0, 0.0, 0.0), self.mask, tau=settings.oar_tau,
                                      beta=settings.oar_beta, eps=settings.oar_eps)
        return torch.where(active, mapped, 1.0)

    def permuted(self, weights: Tensor) -> Tensor:
        """Weights (B, T) permuted among each active rollout's reasoning tokens."""
        return maps.permute_weights(weights, self.reasoning & self.active[:, None], self.keys)

    def shaped(self, scores: Tensor) -> Tensor:
        """The active rollouts whose scores are all finite (B,): the others keep uniform weights."""
        self.touched = True
        return self.active & torch.isfinite(scores).all(-1)

    @cached_property
    def keys(self) -> list[int]:
        """A seed a rollout for what is drawn at random."""
        if self._row_keys is not None:
            if len(self._row_keys) != len(self.rows):
                raise CreditError(f"row_keys has {len(self._row_keys)} entries for {len(self.rows)} rollouts")
            return [int(key) % 2**63 for key in self._row_keys]
        seed = 0
        if self._generator is not None:
            seed = int(torch.randint(2**62, (), generator=self._generator, device=self._generator.device))
        return row_keys_of(self.rows, seed)

    @property
    def _chosen(self) -> list[Row]:
        return [row for row, scored in zip(self.rows, self.scored.tolist()) if scored]

    def _passes(self, leaf: str = "embeddings", full_precision: bool = False):
        from .passes import Passes

        return Passes(self.model, leaf=leaf, budget=self.budget, full_precision=full_precision)

    def _pad_id(self) -> int:
        config = self.model.config.get_text_config()
        for found in (config.pad_token_id, config.eos_token_id):
            if found is not None:
                return found[0] if isinstance(found, list) else found
        raise CreditError("oar_p replaces tokens by the pad token, and the model's configuration names "
                          "neither pad_token_id nor eos_token_id")

    def _spread(self, scores: dict[int, Tensor]) -> Tensor:
        """Row index -> (T_i,) scores, as one (B, T) tensor."""
        spread = self.zeros().double()
        for index, values in scores.items():
            spread[index, :len(values)] = values.to(spread)
        return spread

    def _regions(self) -> tuple[Tensor, Tensor, Tensor]:
        reasoning, content, fixed = (torch.zeros(self.mask.shape, dtype=torch.bool) for _ in range(3))
        for row in self.rows:
            if row.regions is not None:
                reasoning[row.index, :row.regions.answer[0]] = True
                content[row.index, list(row.regions.content)] = True
                fixed[row.index, [*row.regions.boundary, *row.regions.post]] = True
        return reasoning.to(self.device), content.to(self.device), fixed.to(self.device)
