"""GRPO with token credit: the smallest subclass of TRL 1.16's GRPOTrainer that does what the papers say.

How it departs from plain GRPO:
1. The advantage of a rollout becomes one value a token, `A_i * w_it` (B, T), which TRL's `_compute_loss`
   accepts. Method `grpo` takes none of these paths: what runs is TRL's code, bit for bit.
2. `credit.refresh: generation` computes the weights once a generated batch, with the policy that sampled it;
   `step` does it at every micro-step with the policy as it is then (the reference's way).
3. Prompts are rendered by `grail_cli.prompts`, the one renderer that evaluation and analysis use, too.
4. The order of problems depends on seed and epoch alone, and the rollout buffer with its phase is part of a
   checkpoint, so that a resumed run equals an uninterrupted one (`resume.py`).
5. Where most rollouts are reweighted and no layer is recomputed, saliency comes out of the loss's own forward
   pass (`credit/fused.py`): the same weights for one backward pass.
6. A loss or gradient that is not finite stops the run before the optimiser step.
"""

import math
from contextlib import nullcontext

import torch
from trl import GRPOTrainer

from ..credit import Regions, RolloutBatch, TokenBytes, compute_credit, find_regions, token_advantages
from ..credit.compute import chosen
from ..credit.fused import Tap, listening, pays
from ..credit.settings import CreditSettings
from ..errors import RunFailed
from .data import Problems, to_dataset
from .order import EpochSampler
from .phases import Phases

SALIENCY = ("grail", "shuffled")  # methods whose scores the policy's own pass can give
REGION_FIELDS = ("answer", "content", "boundary", "post")


def _batch_of(inputs: dict) -> RolloutBatch:
    return RolloutBatch(inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"],
                        inputs["completion_mask"], inputs["advantages"],
                        [found and Regions(*found) for found in inputs["regions"]])


def _weighted(inputs: dict) -> torch.Tensor:
    """Advantages (B, T) of a batch; (B,) where all weights are 1, which is plain GRPO to the last bit."""
    return token_advantages(inputs["advantages"], inputs["token_weights"], inputs["completion_mask"])


class GrailTrainer(GRPOTrainer):
    """TRL's GRPOTrainer whose advantages are spread over tokens by `grail_cli.credit`.

    render(problem) -> Rendered(text, ids) writes a prompt; phases clocks and watches; record (see
    `rollouts.py`) receives every rollout once. The other arguments are GRPOTrainer's.
    """

    def __init__(
        self,
        *,
        credit: CreditSettings,
        problems: Problems,
        render,
        phases: Phases,
        checkpoints=None,
        rollouts=None,
        **trl,
    ):
        self.credit, self.problems, self.render, self.phases = credit, problems, render, phases
        self.checkpoints, self.rollouts = checkpoints, rollouts
        self.start_epoch = 0
        self._prompt_ids: dict[str, list[int]] = {}
        self._waiting: dict | None = None  # a micro-batch whose weights come out of the policy's own pass
        super().__init__(train_dataset=to_dataset(problems), **trl)
        self._token_bytes = TokenBytes.from_tokenizer(self._tokenizer)
        if self.use_vllm:
            self.vllm_generation.sync_weights = self._timed("sync", self.vllm_generation.sync_weights)

    def _timed(self, phase: str, function):
        def run(*args, **kwargs):
            with self.phases(phase):
                return function(*args, **kwargs)
        return run

    # Data and prompts

    def _get_train_sampler(self, dataset=None):
        plain = super()._get_train_sampler(dataset)
        sampler = EpochSampler(
            plain.data_source,
            plain.mini_repeat_count,
            plain.batch_size,
            plain.repeat_count,
            plain.shuffle,
            plain.seed,
        )
        sampler.set_epoch(self.start_epoch)
        return sampler

    def _tokenize_prompts(self, prompts):
        return [self._prompt_ids[text] for text in prompts], None, {}

    # Rollouts and their credit

    def _generate_single_turn(self, *args, **kwargs):
        with self.phases("rollout"):
            completion_ids, logprobs, *rest = super()._generate_single_turn(*args, **kwargs)
        for number, ids in enumerate(completion_ids):  # TRL's metrics cannot take an empty completion
            if not ids:
                completion_ids[number] = [self._tokenizer.eos_token_id]
                if logprobs is not None:
                    logprobs[number] = [None]
        return (completion_ids, logprobs, *rest)

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._completion_ids = completion_ids_list  # exact lengths: no guess from padding
        with self.phases("reward"):
            return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _generate_and_score_completions(self, inputs):
        numbers = [row["row"] for row in inputs]
        prompts = {
            number: self.render(self.problems.rows[number]["problem"]) for number in dict.fromkeys(numbers)
        }
        self._prompt_ids = {prompt.text: list(prompt.ids) for prompt in prompts.values()}
        inputs = [{**self.problems.rows[number], "prompt": prompts[number].text} for number in numbers]
        output = super()._generate_and_score_completions(inputs)

        regions = [
            find_regions(ids, self._token_bytes, self.credit.answer_span) for ids in self._completion_ids
        ]
        # Plain containers: they survive TRL's shuffle and split, and torch.load's weights_only on resume.
        output["regions"] = [
            None if found is None else tuple(tuple(getattr(found, name)) for name in REGION_FIELDS)
            for found in regions
        ]
        output["row"] = torch.arange(len(inputs))
        answered = torch.tensor(
            [float(found is not None) for found in regions], device=self.accelerator.device
        )
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["answer_found"].append(self.accelerator.gather(answered).mean().item())
        if not self.vllm_importance_sampling_correction:  # with it, TRL logs the drift itself
            self._note_drift(output, mode)
        if mode == "train" and self.rollouts is not None:
            self.rollouts.begin(self.state.global_step + 1, inputs, self._completion_ids, output)
        if mode == "train" and self.credit.method != "grpo" and self.credit.refresh == "generation":
            self._spread(self.model_wrapped, output)
        return output

    def _note_drift(self, output: dict, mode: str) -> None:
        """Log |log p of the trainer - log p of the sampler| over the tokens that both know, (B, T), over all ranks."""
        sampler, trainer = (output.get(name) for name in ("sampling_per_token_logps", "old_per_token_logps"))
        if sampler is None or trainer is None:
            return
        known = output["completion_mask"].bool() & sampler.isfinite()
        drift = torch.where(known, (trainer - sampler).abs(), 0.0)
        total, count = self.accelerator.reduce(torch.stack([drift.sum(), known.sum().to(drift)]), "sum").tolist()
        self._metrics[mode]["sampling/sampling_logp_difference/mean"].append(total / max(count, 1.0))
        self._metrics[mode]["sampling/sampling_logp_difference/max"].append(
            self.accelerator.gather(drift.max()).max().item())

    def _spread(self, model, output: dict, tap: Tap | None = None) -> None:
        """Add `token_weights` (B, T) and `reweighted` (B,) to a batch; its `advantages` stay (B,) until the
        loss.

        tap: the policy's own pass over it. What a method draws comes from a private generator by the run's seed
        and the rollout's own ids.
        """
        batch = _batch_of(output)
        with self.phases("credit"), self.accelerator.autocast():
            credit = compute_credit(model, batch, self.credit, temperature=self.temperature, skip_known=True,
                                    tap=tap, generator=torch.Generator().manual_seed(self.args.seed))
        output["token_weights"], output["reweighted"] = credit.weights, credit.reweighted

    def _compute_loss(self, model, inputs):
        training = self.model.training
        if self.credit.method != "grpo" and training and "token_weights" not in inputs:
            inputs = dict(inputs)  # the buffer stays without weights: the next pass makes its own
            if self._fuses(model, inputs):
                self._waiting = inputs
            else:
                self._spread(model, inputs)
        if "token_weights" in inputs:
            inputs = {**inputs, "advantages": _weighted(inputs)}
        loss = super()._compute_loss(model, inputs)
        if training:
            self._note_weights(inputs)
            if self.rollouts is not None and self._step % self._window < self.args.steps_per_generation:
                self.rollouts.add(inputs["row"], inputs.get("token_weights"))
            if not torch.isfinite(loss):
                self._stop_not_finite("loss", loss.item(), inputs)
        return loss

    def _fuses(self, model, inputs: dict) -> bool:
        """Whether saliency is taken from the policy's own pass: exact, and cheaper than a pass of its own."""
        if self.credit.method not in SALIENCY:
            return False
        return pays(model, chosen(_batch_of(inputs), self.credit).float().mean().item())

    def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        with listening(model, self.credit.leaf) as tap:
            found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        self._spread(model, waiting, tap)
        waiting["advantages"] = _weighted(waiting)  # TRL's loss reads them after this call
        return found

    @property
    def _window(self) -> int:
        """Micro-steps that a generated batch lives for."""
        return self.args.steps_per_generation * self.num_iterations

    def _note_weights(self, inputs: dict) -> None:
        """Mean, spread and bounds of the weights over the loss tokens of reweighted rollouts, of all ranks; 1
        and 0 for grpo.
        """
        names = [f"weights/{name}" for name in ("mean", "std", "share_at_min", "share_at_max", "reweighted")]
        if self.credit.method == "grpo":
            values = (1.0, 0.0, 0.0, 0.0, 0.0)
        else:
            weights, mask = inputs["token_weights"].float(), inputs["completion_mask"].float()
            changed = inputs["reweighted"].float()
            inside = mask * changed.unsqueeze(1)
            sums = torch.stack([inside.sum(), (weights * inside).sum(), (weights.square() * inside).sum(),
                                ((weights <= self.credit.w_min) * inside).sum(),
                                ((weights >= self.credit.w_max) * inside).sum(), changed.sum(),
                                torch.tensor(float(len(changed)), device=weights.device)])
            count, total, squares, low, high, rows, all_rows = self.accelerator.reduce(
                sums, reduction="sum"
            ).tolist()
            if count:
                mean = total / count
                values = (mean, math.sqrt(max(squares / count - mean * mean, 0.0)), low / count, high / count,
                          rows / all_rows)
            else:
                values = (math.nan,) * 4 + (0.0,)
        for name, value in zip(names, values, strict=True):
            self._metrics["train"][name].append(value)

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        if (
            self.rollouts is not None
            and self._step % self._window == self.args.steps_per_generation % self._window
        ):
            self.rollouts.flush(self.accelerator)
        return loss

    # Faults

    def _get_grad_norm(self, model, grad_norm=None):
        norm = super()._get_grad_norm(model, grad_norm)
        if norm is not None and not math.isfinite(float(norm)):
            self._stop_not_finite(
                "gradient norm",
                float(norm),
                self._buffered_inputs[(self._step - 1) % self.args.steps_per_generation],
            )
        return norm

    def _stop_not_finite(self, what: str, value: float, inputs: dict) -> None:
        """Dump the micro-batch and end the run before the optimiser moves."""
        where = ""
        if self.phases.logs is not None:
            path = (
                self.phases.logs
                / f"not-finite-step-{self.state.global_step + 1}-rank-{self.accelerator.process_index}.pt"
            )
            torch.save({name: value.detach().cpu() if torch.is_tensor(value) else value
                        for name, value in inputs.items()}, path)
            where = f" The micro-batch is in {path}."
        raise RunFailed(
            f"the {what} of step {self.state.global_step + 1} is {value}; the optimiser step was not "
            f"taken.{where}",
            kind="not_finite",
            hint="lower train.learning_rate, or look at the rewards and weights of that batch.",
        )

    # Checkpoints

    def create_model_card(self, *args, **kwargs) -> None:
        """No model card is written into the run folder; manifest.json says what a run is."""

    def _get_output_dir(self, trial=None):
        return (
            str(self.checkpoints.staging) if self.checkpoints is not None else super()._get_output_dir(trial)
        )

    def _save_checkpoint(self, model, trial):
        with (
            self.phases("save"),
            self.checkpoints.saving(self) if self.checkpoints is not None else nullcontext(),
        ):
            super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint):
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self.checkpoints is not None:
            self.checkpoints.restore(self, checkpoint)
