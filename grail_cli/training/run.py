"""`train(resolved, out)`: a run from preset to checkpoints, checked first, recorded throughout, resumable at
any step.
"""

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..console import Console
from ..errors import GrailError, raise_all
from ..files import FolderLock, read_json
from ..machine import versions
from ..presets.load import Resolved, load_preset
from ..presets.schema import Preset
from .batches import batch_plan
from .checkpoint import checkpoints, newest_resumable, retention_sentence
from .config import processes
from .layout import fit_to_environment, follows, is_one_rank, wait_for_main
from .live import LiveView
from .record import RunRecord, git_commit, hardware
from .trackers import attach


@dataclass(frozen=True)
class RunResult:
    """What a run came to: its folder, last step, newest checkpoint and last metrics."""

    folder: Path
    step: int
    checkpoint: Path | None
    metrics: dict

    def as_json(self) -> dict:
        return {"run": str(self.folder), "step": self.step, "metrics": self.metrics,
                "checkpoint": str(self.checkpoint) if self.checkpoint else None}


class Interrupted(KeyboardInterrupt):
    """A signal ended the run after a checkpoint; `signum` decides the exit code, the text is for the user."""

    def __init__(self, note: str, signum: int):
        super().__init__(note)
        self.signum = signum


def train(
    resolved: Resolved, out: str | Path, *, resume: bool = False, console: Console | None = None
) -> RunResult:
    """Train as the preset says into run folder `out`; with resume=True go on from its newest whole
    checkpoint.

    Raises Faults for everything that the checks find, GrailError for a folder that is taken, RunFailed when
    training fails, Interrupted when a signal ended it.
    """
    from .checks import check_run

    console, folder = console or Console(), Path(out)
    resolved = fit_to_environment(resolved, os.environ)
    record = RunRecord(folder)
    if follows(resolved):
        wait_for_main(record, resolved.preset.launch.timeout_s)
        quiet = Console(quiet=True)
        with LiveView(resolved.preset.train.max_steps, quiet=True) as view:
            result = _compute(resolved.preset, record, None, quiet, view, lambda phase, seconds: None)
        return RunResult(folder, result.step, None, {})
    record.refuse_if_taken(resume)
    with FolderLock(folder):
        report = check_run(resolved, folder)
        raise_all(report.faults + report.missing)
        for warning in report.warnings:
            console.warn(warning)
        found = newest_resumable(folder, console.warn) if resume else None
        if resume and found is None and checkpoints(folder):
            raise GrailError(
                "holds no checkpoint that training can go on from.",
                where=f"--resume {folder}",
                hint="start a new run with another --out; model.path may be one of its checkpoints.",
            )
        start = found.step if found else 0
        return _run(resolved, record, found.path if found else None, start, report.problems, console)


def _run(
    resolved: Resolved,
    record: RunRecord,
    checkpoint: Path | None,
    start: int,
    problems: int,
    console: Console,
) -> RunResult:
    preset, folder = resolved.preset, record.folder
    plan = batch_plan(preset.train, processes(preset), problems)
    record.begin(resolved.to_yaml(with_origins=True), {
        "preset": resolved.name, "versions": versions(), "git": git_commit(), "hardware": hardware(),
        "seed": preset.train.seed, "plan": plan.as_dict()})
    record.cut_back(start)
    if preset.train.report_to:
        record.note(trackers=attach(preset.train.report_to, record))
    console.say(f"training {preset.model.path} with {preset.credit.method} ({resolved.name})"
                + (f", going on from step {start}" if start else ""))
    console.say(f"run folder {folder.resolve()}; follow it with: tail -F {folder / 'metrics.jsonl'}")
    console.say(plan.sentence())
    train = preset.train
    console.say(
        retention_sentence(
            train.keep_last, train.keep_every, train.keep_best, train.save_steps, train.max_steps
        )
    )
    outcome, step = "failed", start
    view = LiveView(
        train.max_steps,
        title=f"{resolved.name} ({preset.credit.method})",
        every=train.logging_steps,
        quiet=console.quiet,
    )
    try:
        if start >= train.max_steps:
            outcome = "done"
            return RunResult(folder, start, checkpoint, {})
        with view:
            result = _compute(preset, record, checkpoint, console, view,
                              lambda phase, seconds: record.end(f"failed: deadline of {phase}"))
        outcome, step = result.outcome, result.step
    except KeyboardInterrupt as error:
        outcome = "interrupted"
        raise Interrupted(_resume_note(folder), getattr(error, "signum", signal.SIGINT)) from None
    finally:
        record.end(outcome, step)
    if result.signum:
        raise Interrupted(_resume_note(folder), result.signum)
    newest = newest_resumable(folder)
    return RunResult(folder, step, newest.path if newest else None, result.metrics)


def _compute(
    preset: Preset, record: RunRecord, checkpoint: Path | None, console: Console, view: LiveView, on_expiry
):
    """Train in this process when it is the only one or one rank of another's launch; in processes of our own
    otherwise.
    """
    alone = processes(preset) == 1 and not preset.launch.zero and preset.train.sampler != "vllm_server"
    if alone or is_one_rank():
        from .rank import train_rank

        with redirect_stdout(sys.stderr):  # trackers and rewards print; standard output is for the result
            return train_rank(record.folder, preset, record.logs, checkpoint=checkpoint, out=console, view=view,
                              on_expiry=on_expiry)
    from .launch import launch
    from .sampler import server_of

    with server_of(preset, record, console) as server:
        return launch(record.folder, preset, checkpoint=checkpoint, out=console, view=view, server=server)


def _resume_note(folder: Path) -> str:
    kept = newest_resumable(folder)
    state = f"step {kept.step} is saved in {kept.path}" if kept else "no checkpoint was saved yet"
    return f"{state}; go on with: grail train --resume {shlex.quote(str(folder))}"


def changes(folder: Path, resolved: Resolved) -> list[str]:
    """What a resume asks for otherwise than the run folder's preset: `train.max_steps 40 -> 60`, a line a key."""
    before, now = resolve_run(folder).preset.model_dump(), resolved.preset.model_dump()
    return [f"{section}.{key} {before[section][key]} -> {value}" for section, values in now.items()
            if isinstance(values, dict) for key, value in values.items() if before[section][key] != value]


def resolve_run(
    folder: Path, *, sets: Sequence[str] = (), flags: Mapping[str, Any] | None = None
) -> Resolved:
    """The preset that a run folder was made with, for a resume; sets and flags may change what does not touch
    the result.
    """
    path = folder / "preset.yaml"
    if not path.is_file():
        raise GrailError(
            "holds no run to resume (no preset.yaml).",
            where=f"--resume {folder}",
            kind="missing_file",
            hint="give the folder of an earlier `grail train --out`.",
        )
    resolved = load_preset(str(path), sets=sets, flags=flags)
    manifest = folder / "manifest.json"  # every run folder has a preset.yaml; the manifest knows what it was called
    return replace(resolved, name=read_json(manifest)["preset"]) if manifest.is_file() else resolved
