"""One training process: everything of a run that needs torch. `python -m grail_cli.training.rank RUN` is a
launched one.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..console import Console
from ..errors import GrailError, RunFailed
from ..files import read_json, sha256_text, write_json
from ..models import check_folder, context_length, is_local, load_model, load_tokenizer, resolve_model
from ..presets.load import load_preset
from ..presets.schema import Preset
from ..prompts import PromptSettings, render, stamp_of
from .agent import ASKING, die_with_parent
from .config import grpo_arguments, sampling_of
from .data import load_problems, too_long, without
from .health import Health
from .launch import ORDER, RESULT, EventConsole
from .live import LiveView
from .phases import Phases, deadline_words
from .record import RunRecord
from .trackers import arguments, tame


@dataclass(frozen=True)
class RankResult:
    """How training ended: outcome done or interrupted, last step, the signal that ended it, the last metrics.
    """

    outcome: str
    step: int
    signum: int | None
    metrics: dict


def train_rank(run: Path, preset: Preset, logs: Path, *, checkpoint: Path | None, out: Console, view,
               on_expiry=None, sampler: dict | None = None) -> RankResult:
    """Train in this process until the run's last step, a signal or a fault.

    logs: folder for this attempt's logs. checkpoint: a whole one to go on from, or None; of several ranks,
    rank 0's counts. view: a LiveView. on_expiry(phase, seconds) is called before a missed deadline ends the
    process. sampler: arguments of GRPOConfig for the run's vLLM server. Raises RunFailed for an alarm
    (`on_alarm: stop`), a loss that is not finite, and GrailError for a model that cannot be loaded.
    """
    record = RunRecord(run)
    phases = Phases(preset.train.deadlines, logs=logs, on_expiry=on_expiry)
    try:
        with ExitStack() as stack:
            with phases("load"):
                trainer, callback, checkpoint = build(
                    run, preset, phases, record, checkpoint, out, view, stack, sampler
                )
            stop = stack.enter_context(callback.stop)
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            with phases("end"):
                trainer.accelerator.wait_for_everyone()
                step = trainer.state.global_step
    finally:
        phases.close()
    if callback.fatal is not None:
        raise RunFailed(
            f"{callback.fatal.sentence} (on_alarm: stop, step {step}).",
            hint=callback.fatal.hint,
            kind="alarm",
        )
    return RankResult("interrupted" if stop.signum else "done", step, stop.signum, callback.row)


def build(
    run: Path,
    preset: Preset,
    phases: Phases,
    record: RunRecord,
    checkpoint: Path | None,
    out: Console,
    view,
    stack: ExitStack,
    sampler: dict | None = None,
):
    """(trainer, callback, checkpoint) of a run, ready to train; `stack` closes what they need."""
    import torch

    cuda = torch.cuda.is_available()
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # DeepSpeed asks before it is used
    import transformers
    from trl import GRPOConfig

    from ..evaluation.grade import Grader
    from .callbacks import RunCallback, StopRequest
    from .resume import RunCheckpoints, fingerprint, know_numbered_cpus, start_epoch
    from .rewards import MathReward, OwnReward, own_function
    from .rollouts import RolloutWriter
    from .trainer import GrailTrainer

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    args = GRPOConfig(**{
        **grpo_arguments(
            preset, run, cuda=cuda, bf16_works=cuda and torch.cuda.is_bf16_supported(), world=world_size()
        ),
        **arguments(preset.train.report_to, record), **(sampler or {})})
    if preset.launch.zero:
        import deepspeed

        # accelerate does not on a CPU, and ZeRO 3 loads through it
        deepspeed.init_distributed(dist_backend=args.ddp_backend)
    main = args.process_index == 0
    checkpoint = _of_rank_0(checkpoint, args.world_size)
    say = out.say if main else _silent
    problems = load_problems(preset.data)
    prompts, source = PromptSettings.of(preset), resolve_model(preset.model.path)
    tokenizer = load_tokenizer(
        source,
        revision=preset.model.revision,
        trust_remote_code=preset.model.trust_remote_code,
        chat_template=prompts.chat_template,
    )
    problems = _fitting(problems, preset, source, lambda problem: render(tokenizer, problem, prompts))
    transformers.set_seed(preset.train.seed)  # adapters are drawn before TRL seeds
    model = load_model(
        source,
        dtype=weights_dtype(preset, cuda),
        device=args.device,
        revision=preset.model.revision,
        attn_implementation=preset.model.attn_implementation,
        trust_remote_code=preset.model.trust_remote_code,
    )
    model.config.use_cache = False
    reward = (
        MathReward(
            stack.enter_context(
                Grader(
                    preset.train.reward_workers,
                    preset.train.reward_strictness,
                    cpu_s=preset.train.reward_timeout_s,
                )
            )
        )
        if preset.train.reward == "math"
        else OwnReward(own_function(preset.train.reward), preset.train.reward)
    )

    callback = RunCallback(
        phases, Health(preset.train.alarms), StopRequest(say), run, on_alarm=preset.train.on_alarm,
        on_row=lambda row: (record.add_metrics(row), view.show(row)), warn=out.warn)
    stamp = stamp_of(tokenizer, problems.rows[0]["problem"], prompts, sampling=sampling_of(preset.train),
                     credit=preset.credit.model_dump(mode="json"), model=preset.model.path)
    mark = fingerprint(preset, world=args.world_size, data=problems.fingerprint(),
                       model=sha256_text(json.dumps(shape_of(model.config), sort_keys=True)))
    checkpoints = RunCheckpoints(run, preset, stamp, mark, metrics=lambda: view.latest, say=say)
    trainer = GrailTrainer(
        credit=preset.credit,
        problems=problems,
        render=lambda problem: render(tokenizer, problem, prompts),
        phases=phases,
        checkpoints=checkpoints,
        model=model,
        args=args,
        reward_funcs=reward,
        processing_class=tokenizer,
        callbacks=[callback],
        peft_config=lora_config(preset),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.rollouts = RolloutWriter(record.completions, tokenizer, trainer.eos_token_ids, reward.last)
    callback.accelerator = trainer.accelerator
    if not cuda and args.world_size > 1:
        know_numbered_cpus()
    step = 0
    if checkpoint is not None:
        from .checkpoint import read_seal
        from .resume import check_fingerprint

        found = read_seal(checkpoint)
        check_fingerprint(found, mark)
        step, trainer.start_epoch = found.step, start_epoch(checkpoint)
    tame(trainer, step, stack, phases=phases, warn=out.warn)
    if main:
        record.note(
            device=str(args.device),
            world_size=args.world_size,
            dtype=str(model.dtype).removeprefix("torch."),
            parameters=sum(p.numel() for p in model.parameters()),
            trainable=sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
            fingerprint=mark,
            stamp_example=stamp.example_text,
        )
    return trainer, callback, checkpoint


def _of_rank_0(checkpoint: Path | None, world: int) -> Path | None:
    """Rank 0's checkpoint on all ranks: two machines must not look at one folder at two moments."""
    if world == 1:
        return checkpoint
    import torch.distributed as dist

    box = [str(checkpoint) if checkpoint else None]
    dist.broadcast_object_list(box, src=0)
    return Path(box[0]) if box[0] else None


def _fitting(problems, preset: Preset, source: str, renderer):
    """The problems whose prompts leave room for a completion (`data.too_long: drop`); the checks have said
    which go.
    """
    if preset.data.too_long != "drop" or not is_local(source):
        return problems
    context = preset.train.vllm_max_model_length or context_length(check_folder(source))
    room = context - preset.train.max_completion_length if context else None
    return (
        without(problems, [number for number, _ in too_long(problems, renderer, room)]) if room else problems
    )


def shape_of(config) -> dict:
    """A model's configuration without what changes from one place or library version to the next."""
    drop = {
        "_name_or_path",
        "transformers_version",
        "use_cache",
        "dtype",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
    }
    return {name: value for name, value in config.to_dict().items() if name not in drop}


def weights_dtype(preset: Preset, cuda: bool) -> str:
    """Number format that the weights are held in: float32 where the optimiser steps on them directly.

    A step of 1e-6 is lost in bfloat16. DeepSpeed keeps a float32 copy of its own, and LoRA trains float32
    adapters.
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
    return int(os.environ.get("WORLD_SIZE", "1"))


def _silent(text: str) -> None:
    pass


def main(run: Path, logs: Path) -> int:
    """One rank of `accelerate launch`: its output goes to logs/rank-R.log, its fault to rank-R.error.json."""
    number = int(os.environ["RANK"])
    log = os.open(logs / f"rank-{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    preset = load_preset(str(logs / "preset.yaml"), environment={}).preset

    def report(kind: str, message: str, hint: str = "") -> None:
        write_json(logs / f"rank-{number}.error.json",
                   {"rank": number, "time": time.time(), "kind": kind, "message": message, "hint": hint})

    try:
        order = read_json(logs / ORDER)
        checkpoint = order["checkpoint"]
        result = train_rank(
            run,
            preset,
            logs,
            checkpoint=Path(checkpoint) if checkpoint else None,
            out=EventConsole(logs),
            view=LiveView(preset.train.max_steps, quiet=True),
            sampler=order["sampler"],
            on_expiry=lambda phase, seconds: report("deadline", deadline_words(phase, seconds)),
        )
    except BaseException as error:  # the edge of this process: whatever it is, the parent must learn it
        traceback.print_exc()
        if isinstance(error, GrailError):
            report(error.kind, error.message, error.hint)
        else:
            report(type(error).__name__, f"{type(error).__name__}: {error}")
        return 1
    if number == 0:
        write_json(logs / RESULT, {"outcome": result.outcome, "step": result.step, "signum": result.signum,
                                   "metrics": result.metrics})
    return 0


if __name__ == "__main__":
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKING)  # inherited from the deaf launcher
    code = main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(code)  # a collective that another rank will never join must not hold the exit
