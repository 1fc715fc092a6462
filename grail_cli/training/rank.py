"""One training process: everything of a run that needs torch. `python -m grail_cli.training.rank RUN` is a launched one."""

import json
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..console import Console
from ..errors import RunFailed
from ..files import sha256_text
from ..models import load_model, load_tokenizer, resolve_model
from ..presets.schema import Preset
from ..prompts import PromptSettings, render, stamp_of
from .config import grpo_arguments, sampling_of
from .data import load_problems
from .health import Health
from .phases import Phases
from .record import RunRecord


@dataclass(frozen=True)
class RankResult:
    """How training ended: outcome done or interrupted, last step, the signal that ended it, the last metrics."""

    outcome: str
    step: int
    signum: int | None
    metrics: dict


def train_rank(run: Path, preset: Preset, *, checkpoint: Path | None, out: Console, view) -> RankResult:
    """Train in this process until the run's last step, a signal or a fault.

    checkpoint: a whole one to go on from, or None. view: a LiveView. Raises RunFailed for an alarm (`on_alarm: stop`),
    a loss that is not finite, and GrailError for a model that cannot be loaded.
    """
    record = RunRecord(run)
    phases = Phases(preset.train.deadlines, logs=record.logs)
    try:
        with ExitStack() as stack:
            with phases("load"):
                trainer, callback = build(run, preset, phases, record, checkpoint, out, view, stack)
            stop = stack.enter_context(callback.stop)
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            with phases("end"):
                trainer.accelerator.wait_for_everyone()
                step = trainer.state.global_step
    finally:
        phases.close()
    if callback.fatal is not None:
        raise RunFailed(f"{callback.fatal.sentence} (on_alarm: stop, step {step}).", hint=callback.fatal.hint, kind="alarm")
    return RankResult("interrupted" if stop.signum else "done", step, stop.signum, callback.row)


def build(run: Path, preset: Preset, phases: Phases, record: RunRecord, checkpoint: Path | None, out: Console, view,
          stack: ExitStack):
    """(trainer, callback) of a run, ready to train; `stack` closes what they need."""
    import torch
    import transformers
    from trl import GRPOConfig

    from ..evaluation.grade import Grader
    from .callbacks import RunCallback, StopRequest
    from .resume import RunCheckpoints, fingerprint, start_epoch
    from .rewards import MathReward, OwnReward, own_function
    from .rollouts import RolloutWriter
    from .trainer import GrailTrainer

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    cuda = torch.cuda.is_available()
    args = GRPOConfig(**grpo_arguments(preset, run, cuda=cuda, bf16_works=cuda and torch.cuda.is_bf16_supported(),
                                       world=world_size()))
    main = args.process_index == 0
    say = out.say if main else _silent
    problems = load_problems(preset.data)
    prompts, source = PromptSettings.of(preset), resolve_model(preset.model.path)
    tokenizer = load_tokenizer(source, revision=preset.model.revision, trust_remote_code=preset.model.trust_remote_code,
                               chat_template=prompts.chat_template)
    transformers.set_seed(preset.train.seed)  # adapters are drawn before TRL seeds
    model = load_model(source, dtype=weights_dtype(preset, cuda), device=args.device, revision=preset.model.revision,
                       attn_implementation=preset.model.attn_implementation,
                       trust_remote_code=preset.model.trust_remote_code)
    model.config.use_cache = False
    reward = (MathReward(stack.enter_context(Grader(preset.train.reward_workers, preset.train.reward_strictness,
                                                    cpu_s=preset.train.reward_timeout_s)))
              if preset.train.reward == "math" else OwnReward(own_function(preset.train.reward), preset.train.reward))

    callback = RunCallback(
        phases, Health(preset.train.alarms), StopRequest(say), run, on_alarm=preset.train.on_alarm,
        on_row=lambda row: (record.add_metrics(row), view.show(row)), warn=out.warn)
    stamp = stamp_of(tokenizer, problems.rows[0]["problem"], prompts, sampling=sampling_of(preset.train),
                     credit=preset.credit.model_dump(mode="json"), model=preset.model.path)
    mark = fingerprint(preset, world=args.world_size, data=problems.fingerprint(),
                       model=sha256_text(json.dumps(shape_of(model.config), sort_keys=True)))
    checkpoints = RunCheckpoints(run, preset, stamp, mark, metrics=lambda: callback.row, say=say)
    trainer = GrailTrainer(
        credit=preset.credit, problems=problems, render=lambda problem: render(tokenizer, problem, prompts), phases=phases,
        checkpoints=checkpoints, model=model, args=args, reward_funcs=reward, processing_class=tokenizer,
        callbacks=[callback], peft_config=lora_config(preset))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.rollouts = RolloutWriter(record.completions, tokenizer, trainer.eos_token_ids, reward.last)
    callback.accelerator = trainer.accelerator
    if checkpoint is not None:
        from .checkpoint import read_seal
        from .resume import check_fingerprint

        check_fingerprint(read_seal(checkpoint), mark)
        trainer.start_epoch = start_epoch(checkpoint)
    if main:
        record.note(device=str(args.device), world_size=args.world_size, dtype=str(model.dtype).removeprefix("torch."),
                    parameters=sum(p.numel() for p in model.parameters()),
                    trainable=sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
                    fingerprint=mark, stamp_example=stamp.example_text)
    return trainer, callback


def shape_of(config) -> dict:
    """A model's configuration without what changes from one place or library version to the next."""
    drop = {"_name_or_path", "transformers_version", "use_cache", "dtype", "pad_token_id", "bos_token_id", "eos_token_id"}
    return {name: value for name, value in config.to_dict().items() if name not in drop}


def weights_dtype(preset: Preset, cuda: bool) -> str:
    """Number format that the weights are held in: float32 where the optimiser steps on them directly.

    A step of 1e-6 is lost in bfloat16. DeepSpeed keeps a float32 copy of its own, and LoRA trains float32 adapters.
    """
    if preset.model.dtype != "auto":
        return preset.model.dtype
    return "bfloat16" if cuda and (preset.launch.zero or preset.model.lora_rank) else "float32"


def lora_config(preset: Preset):
    """peft's LoraConfig of section `model`, or None when all weights are trained."""
    model = preset.model
    if not model.lora_rank:
        return None
    from peft import LoraConfig

    return LoraConfig(r=model.lora_rank, lora_alpha=model.lora_alpha, lora_dropout=model.lora_dropout,
                      target_modules=model.lora_target_modules, task_type="CAUSAL_LM")


def world_size() -> int:
    """Processes of this launch, as torchrun and accelerate tell them."""
    import os

    return int(os.environ.get("WORLD_SIZE", "1"))


def _silent(text: str) -> None:
    pass
