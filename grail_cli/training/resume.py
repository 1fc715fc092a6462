"""Exact resume: what TRL and transformers forget is saved with a checkpoint, and a stranger's checkpoint is
refused.

transformers keeps weights, optimiser, scheduler and the random generators of every rank. TRL 1.16 loses its
micro-step counter and the rollout buffer, so that a checkpoint inside a rollout's life shifts the whole
schedule; its sampler forgets the epoch. `RunCheckpoints` adds these, a file `rank-R.pt` a rank.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..errors import GrailError
from ..presets.schema import Preset
from ..prompts import PromptStamp, save_stamp
from .checkpoint import STAGING, Sealed, keep, seal, staged

# Settings that may change between a checkpoint and its continuation: they do not touch what is computed.
FREE = {
    "train": {
        "max_steps",
        "save_steps",
        "keep_last",
        "keep_every",
        "keep_best",
        "report_to",
        "on_alarm",
        "logging_steps",
        "reward_workers",
        "deadlines",
        "alarms",
    },
    # the weights come from the checkpoint; what they are is compared by content
    "model": {"path", "revision"},
    "launch": {"gpus", "main_address", "main_port", "timeout_s", "rank", "machines", "processes"},
    # problems are compared by content
    "data": {"train", "config", "split", "revision"},
}
SECTIONS = ("model", "data", "train", "credit", "launch")


def fingerprint(preset: Preset, *, world: int, data: str, model: str) -> dict:
    """What must be equal for a resume to be exact: settings by dotted key, data and model by content,
    processes.

    data: hash of the problems; model: hash of the start model's config.json.
    """
    settings = {
        f"{name}.{key}": value
        for name in SECTIONS
        for key, value in getattr(preset, name).model_dump(mode="json").items()
        if key not in FREE.get(name, ())
    }
    if preset.train.lr_scheduler_type in ("linear", "cosine"):  # their step size depends on the last step
        settings["train.max_steps"] = preset.train.max_steps
    return {**settings, "world_size": world, "problems": data, "model": model}


def check_fingerprint(found: Sealed, now: dict) -> None:
    """Raise GrailError with every differing key when a checkpoint is another run's."""
    then = found.fingerprint
    differing = [key for key in sorted({*then, *now}) if then.get(key) != now.get(key)]
    if not differing:
        return
    parts = [f"{key} {_short(then.get(key))} -> {_short(now.get(key))}" for key in differing]
    hint = "go on with the saved settings, or start a new run with another --out."
    if "world_size" in differing:
        hint = (
            "optimiser and rollout state are kept a process: use as many as before, or start anew from its "
            f"weights (--set model.path={found.path})."
        )
    raise GrailError(
        f"was made with other settings: {'; '.join(parts)}.",
        where=str(found.path),
        kind="other_run",
        hint=hint,
    )


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text[:10] if len(text) == 64 else text


class RunCheckpoints:
    """Saves and restores the checkpoints of one run; one a process.

    metrics() gives the newest logged values, say(text) speaks to the user (main process only).
    """

    def __init__(self, run: Path, preset: Preset, stamp: PromptStamp, fingerprint: dict, *,
                 metrics: Callable[[], dict], say: Callable[[str], None]):
        self.run, self.preset, self.stamp, self.fingerprint = run, preset, stamp, fingerprint
        self.metrics, self.say = metrics, say
        self.staging = run / STAGING

    @contextmanager
    def saving(self, trainer) -> Iterator[None]:
        """Around transformers' `_save_checkpoint`, which writes below `staging`: adds our state, seals,
        moves, keeps.
        """
        step, main = trainer.state.global_step, trainer.accelerator.is_main_process
        folder = self.staging / f"checkpoint-{step}"
        if main:
            shutil.rmtree(self.staging, ignore_errors=True)  # what a kill in an earlier save left
        trainer.accelerator.wait_for_everyone()
        yield
        os.makedirs(folder, exist_ok=True)
        torch.save(rank_state(trainer), folder / f"rank-{trainer.accelerator.process_index}.pt")
        trainer.accelerator.wait_for_everyone()
        if main:
            with staged(self.run, step):
                save_stamp(folder, self.stamp)
                seal(folder, step, self.fingerprint, self.metrics())
            train = self.preset.train
            for line in keep(self.run, last=train.keep_last, every=train.keep_every, best=train.keep_best):
                self.say(line)
        trainer.accelerator.wait_for_everyone()

    def restore(self, trainer, checkpoint: str) -> None:
        """Put a rank's own state back; transformers restores the rest."""
        path = Path(checkpoint) / f"rank-{trainer.accelerator.process_index}.pt"
        state = torch.load(path, map_location=trainer.accelerator.device, weights_only=True)
        trainer._step = state["micro_step"]
        trainer._buffered_inputs = state["buffer"]
        trainer._current_train_step_time = state["step_time"]
        trainer._metrics["train"].update(state["metrics"])
        if trainer.rollouts is not None:
            trainer.rollouts.restore(state["rollouts"])


def rank_state(trainer) -> dict:
    """What this rank needs to go on in the middle of a rollout's life."""
    return {"micro_step": trainer._step, "buffer": trainer._buffered_inputs,
            "step_time": trainer._current_train_step_time,
            "metrics": {name: list(values) for name, values in trainer._metrics["train"].items()},
            "rollouts": trainer.rollouts.state() if trainer.rollouts is not None else {}}


def start_epoch(checkpoint: Path) -> int:
    """The epoch that a checkpoint goes on in: its whole passes over the problems."""
    from transformers.trainer_callback import TrainerState

    return int(TrainerState.load_from_json(str(checkpoint / "trainer_state.json")).epoch or 0)


def know_numbered_cpus() -> None:
    """Let torch.load restore to `cpu:0`, the name that accelerate gives a rank's CPU; torch itself knows
    `cpu` alone.
    """
    torch.serialization.register_package(
        5, lambda storage: None, lambda storage, location: storage if location.startswith("cpu:") else None)
