"""Many runs from one preset: every credit arm with every seed, side by side, each an ordinary run folder.

An arm is a method, a method with other credit settings (`grail:stats=reasoning`), or `grail-plus`, the settings of
preset qwen3-grail-plus. Runs of one seed see the same prompts in the same order and begin with the same rollouts,
whatever their arm, so that arms are compared in pairs.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ..console import Console
from ..credit.settings import CreditSettings, Method
from ..errors import GrailError, nearest, raise_all
from ..files import FolderLock
from ..presets.load import Resolved, load_preset
from .config import processes
from .side_by_side import ONE_THREAD, Run, follow, refuse_others, training

PLUS = "grail-plus"
_SEEDS = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Arm:
    """One way of giving credit: its name as typed, and the overrides that make it (`credit.key=value`)."""

    name: str
    sets: tuple[str, ...]

    @property
    def folder(self) -> str:
        return self.name.replace(":", "+")


def run_name(arm: str, seed: int) -> str:
    """The run folder of an arm and seed; `grail report --paired` reads both back out of it."""
    return f"{arm}-seed-{seed}"


def read_seeds(text: str) -> list[int]:
    """`0-3,7` -> [0, 1, 2, 3, 7]. Raises GrailError for anything else, an empty range, or a seed named twice."""
    seeds: list[int] = []
    for part in text.split(","):
        found = _SEEDS.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise GrailError(f"{part.strip()!r} is no seed and no range of seeds.", where="--seeds",
                             hint="write 0-7 or 0,1,5.")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise GrailError(f"{text!r} names a seed twice.", where="--seeds")
    return seeds


def read_arms(text: str) -> list[Arm]:
    """The arms in a comma-separated list. Raises Faults with every method or key that is not known, or GrailError
    for an arm that is named twice."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if len(set(names)) < len(names) or not names:
        raise GrailError(f"{text!r} names {'an arm twice' if names else 'no method'}.", where="--methods")
    arms, faults = [], []
    for name in names:
        try:
            arms.append(_arm(name))
        except GrailError as error:
            faults.append(error)
    raise_all(faults)
    return arms


def _arm(name: str) -> Arm:
    method, *parts = name.split(":")
    if method == PLUS:
        sets = _plus()
    elif method in get_args(Method):
        sets = [f"credit.method={method}"]
    else:
        raise GrailError(f"no method {method!r}; {nearest(method, [*get_args(Method), PLUS])}", where="--methods")
    for part in parts:
        key, equals, _ = part.partition("=")
        if not equals or key == "method" or key not in CreditSettings.model_fields:
            known = [key for key in CreditSettings.model_fields if key != "method"]
            raise GrailError(f"{part!r} in {name!r}: {nearest(key, known)}", where="--methods",
                             hint="write METHOD:key=value, such as grail:stats=reasoning.")
        sets.append(f"credit.{part}")
    return Arm(name, tuple(sets))


def _plus() -> list[str]:
    """What preset qwen3-grail-plus says otherwise than qwen3-grail."""
    plus, paper = (load_preset(name).preset.credit.model_dump() for name in ("qwen3-grail-plus", "qwen3-grail"))
    return ["credit.method=grail", *(f"credit.{key}={value}" for key, value in plus.items() if value != paper[key])]


def plan(arms: Sequence[Arm], seeds: Sequence[int], out: Path, *, preset: str | None, config: str | None,
         sets: Sequence[str]) -> list[Run]:
    """The runs below `out`, seed by seed so that whatever was finished when it stops can be compared.

    Raises Faults for every arm whose preset does not hold, GrailError for a folder with a run of other settings.
    """
    source = [word for flag, value in (("--preset", preset), ("--config", config)) if value for word in (flag, value)]
    runs, faults = [], []
    for seed in seeds:
        for arm in arms:
            given = [*sets, *arm.sets, f"train.seed={seed}"]
            try:
                resolved = load_preset(preset, sets=given, config_file=config)
            except GrailError as error:
                if seed == seeds[0]:
                    faults.append(error)
                continue
            name = run_name(arm.folder, seed)
            asked = (*source, *(word for text in given for word in ("--set", text)))
            runs.append(Run(name, resolved, out / name, asked))
    raise_all(faults)
    refuse_others(runs)
    return runs


def places(resolved: Resolved, gpus: Sequence[str]) -> list[dict[str, str]]:
    """Where runs may train at a time, as changes to the environment: a thread each of the cores that this process may
    use, or as many of the GPUs (CUDA names) each as a run has processes; one place when launch.gpus names them or a
    server has GPUs of its own."""
    if not gpus:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return [ONE_THREAD] * max(1, cores // processes(resolved.preset))
    size = processes(resolved.preset)
    if resolved.preset.launch.gpus or resolved.preset.train.sampler == "vllm_server" or len(gpus) < size:
        return [{}]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[i:i + size])} for i in range(0, len(gpus) - size + 1, size)]


def check_all(runs: Sequence[Run]) -> None:
    """Check every run that is not finished. Raises Faults with each fault once, whatever the number of its runs."""
    from .checks import check_run

    faults: dict[str, GrailError] = {}
    for run in runs:
        if not run.finished:
            report = check_run(run.resolved, run.folder)
            faults |= {fault.line(): fault for fault in report.faults + report.missing}
    raise_all(list(faults.values()))


def train_all(runs: Sequence[Run], out: Path, where: Sequence[dict[str, str]], console: Console) -> dict:
    """Train every run that is not finished, one in each of the places at a time; the same call goes on later.

    Returns {runs: [{run, name, step, reward}]}. Raises Faults for what the checks of a run find before any starts,
    RunFailed when runs failed, after the others are done.
    """
    check_all(runs)
    try:
        with FolderLock(out), training(runs, out / "logs", console, jobs=len(where), places=where) as children:
            follow(children)
    except KeyboardInterrupt as stop:
        done = sum(run.finished for run in runs)
        stop.args = (f"{done} of {len(runs)} runs are done, the others are saved; the same command goes on.",)
        raise
    return {"runs": [{"run": str(run.folder), "name": run.name, "step": run.steps,
                      "reward": run.rewards()[-1][1] if run.rewards() else None} for run in runs]}
