"""The batch arithmetic of a run: what a step generates, what it trains on, how often a rollout is used.

Pure numbers, so that every fault is found before a model is loaded. The rules are those of TRL 1.16's
GRPOConfig: the generation batch (micro batch x processes x micro-steps a generation) must hold whole groups.
"""

import math
from dataclasses import asdict, dataclass

from ..console import counted
from ..errors import GrailError
from ..presets.schema import TrainSection


@dataclass(frozen=True)
class BatchPlan:
    """How many completions, prompts and updates a step and a generated batch have, for a number of processes.
    """

    processes: int
    micro_batch: int
    accumulation: int
    steps_per_generation: int
    num_generations: int
    num_iterations: int
    max_steps: int
    problems: int | None = None

    @property
    def completions_a_step(self) -> int:
        """Completions whose gradient enters one optimiser step."""
        return self.micro_batch * self.accumulation * self.processes

    @property
    def rollouts_a_generation(self) -> int:
        """Completions that are sampled together."""
        return self.micro_batch * self.steps_per_generation * self.processes

    @property
    def prompts_a_generation(self) -> float:
        return self.rollouts_a_generation / self.num_generations

    @property
    def updates_a_generation(self) -> float:
        """Optimiser steps that a generated batch lives for; above 1 the later ones are off-policy."""
        return self.steps_per_generation * self.num_iterations / self.accumulation

    @property
    def off_policy(self) -> bool:
        return self.accumulation % (self.steps_per_generation * self.num_iterations) != 0

    @property
    def generations(self) -> int:
        """Batches that are generated in the whole run."""
        return math.ceil(self.max_steps / self.updates_a_generation)

    @property
    def epochs(self) -> float | None:
        """Passes over the problems, or None when their number is not known."""
        return self.generations * self.prompts_a_generation / self.problems if self.problems else None

    @property
    def dropped_an_epoch(self) -> int | None:
        """Problems that do not fill a generated batch at an epoch's end (another handful each epoch)."""
        return self.problems % int(self.prompts_a_generation) if self.problems else None

    def sentence(self) -> str:
        """One paragraph that a person can check."""
        life = self.updates_a_generation
        text = (
            f"{self.micro_batch} completions x {counted(self.accumulation, 'micro-step')} x {self.processes} "
            f"process{'es' if self.processes > 1 else ''} = {self.completions_a_step} completions an "
            "optimiser step. "
            f"A generated batch: {counted(self.prompts_a_generation, 'prompt')} x {self.num_generations} = "
            f"{self.rollouts_a_generation} rollouts, used for {life:g} optimiser "
            f"step{'' if life == 1 else 's'} "
            f"({'off' if self.off_policy else 'on'}-policy). "
            f"{self.max_steps} steps = {self.generations} generated batches"
        )
        if self.problems:
            text += f" = {self.epochs:.3g} passes over {self.problems} problems"
            if self.dropped_an_epoch:
                text += f" ({self.dropped_an_epoch} left out each pass)"
        return text + "."

    def as_dict(self) -> dict:
        """All numbers, for --json and the manifest."""
        names = (
            "completions_a_step",
            "rollouts_a_generation",
            "prompts_a_generation",
            "updates_a_generation",
            "off_policy",
            "generations",
            "epochs",
            "dropped_an_epoch",
        )
        return {**asdict(self), **{name: getattr(self, name) for name in names}}


def batch_plan(train: TrainSection, processes: int, problems: int | None = None) -> BatchPlan:
    """The plan of section `train` on so many processes over so many problems."""
    return BatchPlan(processes, train.per_device_train_batch_size, train.gradient_accumulation_steps,
                     train.steps_per_generation or train.gradient_accumulation_steps, train.num_generations,
                     train.num_iterations, train.max_steps, problems)


def batch_faults(plan: BatchPlan) -> list[GrailError]:
    """What cannot work in a plan, each fault with the nearest values that would."""
    faults = []
    unit = plan.micro_batch * plan.processes
    if plan.rollouts_a_generation % plan.num_generations:
        # micro-steps must be a multiple of it
        need = plan.num_generations // math.gcd(unit, plan.num_generations)
        below, above = plan.steps_per_generation // need * need, -(-plan.steps_per_generation // need) * need
        fitting = sorted({n for n in (below, above) if n > 0})
        groups = [g for g in range(2, plan.rollouts_a_generation + 1) if plan.rollouts_a_generation % g == 0]
        near = sorted(groups, key=lambda g: abs(g - plan.num_generations))[:2]
        faults.append(
            GrailError(
                f"a generated batch of {plan.micro_batch} x {plan.steps_per_generation} micro-steps x "
                f"{plan.processes} processes "
                f"= {plan.rollouts_a_generation} completions does not hold whole groups of num_generations "
                f"{plan.num_generations}.",
                where="train.per_device_train_batch_size",
                hint=f"set train.gradient_accumulation_steps to {' or '.join(map(str, fitting))}"
                + (f", or train.num_generations to {' or '.join(map(str, sorted(near)))}." if near else "."),
            )
        )
    elif plan.problems is not None and plan.problems < plan.prompts_a_generation:
        faults.append(
            GrailError(
                f"{plan.problems} problems do not fill one generated batch of {plan.prompts_a_generation:g} "
                "prompts.",
                where="data.train",
                hint="use more problems, or fewer micro-steps (train.gradient_accumulation_steps).",
            )
        )
    return faults
