"""Training runs next to each other, each an ordinary `grail train` in a process of its own.

A run that was stopped goes on where it was; one that is finished is left alone. The runs die with whoever started
them, at the latest. On a CPU every run has one thread, whatever the machine has: the result of a seed then does not
depend on the number of cores.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..console import Console, counted
from ..errors import GrailError, RunFailed
from ..files import read_jsonl
from ..presets.load import Resolved
from .agent import die_with_parent
from .checkpoint import SEAL
from .run import resolve_run

LOOK_EVERY_S = 1.0
LOG_TAIL = 8  # lines of a failed run's log that are shown
REWARDS = 5  # steps whose mean reward is shown
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclass(frozen=True)
class Run:
    """One run: its name, its resolved preset, its folder, and the words of `grail train` that resolve to it."""

    name: str
    resolved: Resolved
    folder: Path
    asked: tuple[str, ...]

    @property
    def steps(self) -> int:
        return self.resolved.preset.train.max_steps

    @property
    def last(self) -> Path:
        """The checkpoint of the last step."""
        return self.folder / f"checkpoint-{self.steps}"

    @property
    def finished(self) -> bool:
        return (self.last / SEAL).is_file()

    def words(self) -> list[str]:
        """The `grail` command that makes the run or goes on with it."""
        if (self.folder / "preset.yaml").is_file():
            return ["train", "--resume", str(self.folder)]
        return ["train", *self.asked, "--out", str(self.folder)]

    def rewards(self) -> list[tuple[int, float]]:
        """(step, mean reward) of every step so far that began with a generated batch."""
        return [(row["step"], row["reward"]) for row in self.metrics() if row.get("reward") is not None]

    def metrics(self) -> list[dict]:
        """The rows of metrics.jsonl so far, one a step."""
        file = self.folder / "metrics.jsonl"
        return read_jsonl(file) if file.is_file() else []


def refuse_others(runs: Sequence[Run]) -> None:
    """Raise GrailError when a run with other settings lies in the folder of one of these."""
    for run in runs:
        if (run.folder / "preset.yaml").is_file() and resolve_run(run.folder).preset != run.resolved.preset:
            raise GrailError("holds a run with other settings.", where=str(run.folder),
                             kind="settings_differ", hint="give another --out, or the same settings as before.")


@dataclass
class Children:
    """The runs that wait, those that train, and those that failed; at most `jobs` train at a time."""

    logs: Path
    console: Console
    jobs: int
    places: list[dict[str, str]]  # environment changes, one a job that may run at a time
    waiting: list[Run] = field(default_factory=list)
    running: list[tuple[Run, subprocess.Popen, dict[str, str]]] = field(default_factory=list)
    done: list[Run] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def look(self) -> bool:
        """Take note of what ended, start what may start; whether anything is left to wait for."""
        for entry in list(self.running):
            run, child, place = entry
            if child.poll() is None:
                continue
            self.running.remove(entry)
            self.places.append(place)
            self.done.append(run)
            if child.returncode:
                self.failed.append(self._failure(run, child.returncode))
                if self.waiting or self.running:
                    self.console.warn(f"{run.name} failed; the other runs go on.")
        while self.waiting and len(self.running) < self.jobs:
            run, place = self.waiting.pop(0), self.places.pop(0)
            words = run.words()
            self.console.say(f"started: {shlex.join(['grail', *words])}")
            self.running.append((run, _start(words, self.logs / f"{run.name}.log", place), place))
        return bool(self.running)

    def _failure(self, run: Run, code: int) -> str:
        log = self.logs / f"{run.name}.log"
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:]
        return "\n".join([f"{run.name} ended with exit code {code} ({log}):", *tail])


@contextmanager
def training(runs: Sequence[Run], logs: Path, console: Console, *, jobs: int | None = None,
             places: Sequence[dict[str, str]] = ()) -> Iterator[Children]:
    """Train every run that is not finished, `jobs` at a time (None: all); on the way out, those still alive are
    told to save and stop.

    places: changes to the environment of the jobs that run at a time, such as their GPUs; by default one thread each.
    """
    jobs = jobs or max(1, len(runs))
    logs.mkdir(parents=True, exist_ok=True)
    finished = [run for run in runs if run.finished]
    for run in finished:
        console.say(f"{run.name}: all {counted(run.steps, 'step')} are done, in {run.folder}")
    children = Children(logs, console, jobs, list(places) or [ONE_THREAD] * jobs,
                        waiting=[run for run in runs if not run.finished])
    try:
        children.look()
        yield children
    finally:
        alive = [child for _, child, _ in children.running if child.poll() is None]
        for child in alive:
            child.send_signal(signal.SIGTERM)  # once: it finishes its step, saves and ends
        for child in alive:
            child.wait()


def _start(words: list[str], log: Path, place: dict[str, str]) -> subprocess.Popen:
    parent = os.getpid()
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "grail_cli", *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            env={**os.environ, **place}, start_new_session=True,  # Ctrl-C reaches it through us, once
            preexec_fn=lambda: die_with_parent(parent))


def follow(children: Children) -> None:
    """Wait for the runs, showing steps and rewards. Raises RunFailed with the ends of the logs of those that
    failed, once the others are done.
    """
    if not (children.waiting or children.running):
        return
    total = sum(run.steps for run in [*children.waiting, *(run for run, _, _ in children.running)])
    with children.console.progress("training", total=total, unit="steps", done=_steps(children)) as bar:
        while children.look():
            notes = [f"{run.name} reward {sum(reward for _, reward in last) / len(last):.2f}"
                     for run, _, _ in children.running if (last := run.rewards()[-REWARDS:])]
            bar.advance(_steps(children) - bar.done, ", ".join(notes))
            time.sleep(LOOK_EVERY_S)
        bar.advance(_steps(children) - bar.done)
    if children.failed:
        raise RunFailed("\n".join(children.failed), where=str(children.logs),
                        hint="mend that, then give the same command again.")


def _steps(children: Children) -> int:
    return sum(len(run.metrics()) for run in [*children.done, *(run for run, _, _ in children.running)])
