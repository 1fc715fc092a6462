"""Training runs next to each other, each an ordinary `grail train` in a process of its own, one thread each.

One thread, whatever the machine has: the result of a seed then does not depend on the number of cores. A run
that was stopped goes on where it was; one that is finished is left alone. The runs die with the demo, at the
latest.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..console import Console
from ..errors import GrailError, RunFailed
from ..files import read_jsonl
from ..presets import Resolved, load_preset
from ..training.agent import die_with_parent
from ..training.checkpoint import SEAL
from ..training.run import resolve_run

LOOK_EVERY_S = 1.0
LOG_TAIL = 8  # lines of a failed run's log that are shown
REWARDS = 5  # steps whose mean reward is shown


@dataclass(frozen=True)
class Run:
    """One method's run: its resolved preset, its folder, and what was overridden on the command line."""

    method: str
    resolved: Resolved
    folder: Path
    sets: tuple[str, ...] = ()

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
        sets = [word for text in self.sets for word in ("--set", text)]
        return ["train", "--preset", self.resolved.name, *sets, "--out", str(self.folder)]

    def rewards(self) -> list[float]:
        """The mean reward of every step so far."""
        file = self.folder / "metrics.jsonl"
        rows = read_jsonl(file) if file.is_file() else []
        return [row["reward"] for row in rows if row.get("reward") is not None]


def plan(methods: dict[str, str], folder: Path, sets: Sequence[str]) -> list[Run]:
    """The runs of methods {name: preset} below a folder; nothing is written.

    Raises GrailError when a run of other settings lies there, or an override would take the methods'
    difference away.
    """
    runs = [Run(method, load_preset(preset, sets=sets), folder / method, tuple(sets))
            for method, preset in methods.items()]
    if len({run.resolved.preset.credit.method for run in runs}) < len(runs):
        raise GrailError("the demo compares methods, so the method cannot be set.",
                         where="--set credit.method",
                         hint="grail train --preset tiny-grpo --method NAME trains one of them.")
    for run in runs:
        if (run.folder / "preset.yaml").is_file() and resolve_run(run.folder).preset != run.resolved.preset:
            raise GrailError("holds a demo with other settings.", where=str(run.folder),
                             kind="settings_differ", hint="give another --out, or the same --set as before.")
    return runs


@contextmanager
def training(runs: Sequence[Run], logs: Path,
             console: Console) -> Iterator[list[tuple[Run, subprocess.Popen]]]:
    """Start every run that is not finished; on the way out, those still alive are told to save and stop."""
    children: list[tuple[Run, subprocess.Popen]] = []
    logs.mkdir(parents=True, exist_ok=True)
    try:
        for run in runs:
            if run.finished:
                console.say(f"{run.method}: all {run.steps} steps are done, in {run.folder}")
                continue
            words = run.words()
            console.say(f"started: {shlex.join(['grail', *words])}")
            children.append((run, _start(words, logs / f"{run.method}.log")))
        yield children
    finally:
        alive = [child for _, child in children if child.poll() is None]
        for child in alive:
            child.send_signal(signal.SIGTERM)  # once: it finishes its step, saves and ends
        for child in alive:
            child.wait()


def _start(words: list[str], log: Path) -> subprocess.Popen:
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    parent = os.getpid()
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "grail_cli", *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            env={**os.environ, **one_thread}, start_new_session=True,  # Ctrl-C reaches it through us, once
            preexec_fn=lambda: die_with_parent(parent))


def follow(children: Sequence[tuple[Run, subprocess.Popen]], logs: Path, console: Console) -> None:
    """Wait for the runs, showing steps and rewards. Raises RunFailed, with the log's end, when one fails."""
    if not children:
        return
    total = sum(run.steps for run, _ in children)
    with console.progress("training", total=total, unit="steps", done=_steps(children)) as bar:
        while True:
            running = [child for _, child in children if child.poll() is None]
            notes = [f"{run.method} reward {sum(last) / len(last):.2f}"
                     for run, _ in children if (last := run.rewards()[-REWARDS:])]
            bar.advance(_steps(children) - bar.done, ", ".join(notes))
            for run, child in children:
                if child.returncode:
                    log = logs / f"{run.method}.log"
                    tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:]
                    end = "\n".join(tail)
                    raise RunFailed(f"{run.method} ended with exit code {child.returncode}:\n{end}",
                                    where=str(log), hint="mend that, then give the same command again.")
            if not running:
                return
            time.sleep(LOOK_EVERY_S)


def _steps(children: Sequence[tuple[Run, subprocess.Popen]]) -> int:
    return sum(len(run.rewards()) for run, _ in children)
