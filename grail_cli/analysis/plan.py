"""What is to be analysed: the checkpoints of runs, and the texts that each of them is asked about.

`own` texts are the samples of each checkpoint (results/RUN@step-N/SUITE/samples.jsonl); `shared` texts are the same
for all: those of a rollouts file, or the samples of the last checkpoint that has any. A checkpoint without texts is
never given those of another one silently; it is named and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .records import Rollout
from .rollouts import checked, read_rollouts, sample_rollouts
from ..errors import GrailError
from ..files import read_jsonl
from ..models import is_adapter
from ..prompts import PromptSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Reader = Callable[["PreTrainedTokenizerBase", PromptSettings], list[Rollout]]


@dataclass(frozen=True)
class Task:
    """One checkpoint and where its texts come from."""

    label: str
    checkpoint: str
    texts: str
    read: Reader
    run: str = ""
    step: int | None = None


@dataclass(frozen=True)
class Plan:
    """The checkpoints that can be analysed, in order of run and step, and those that cannot, with the reason."""

    tasks: list[Task]
    skipped: dict[str, str]


def checkpoints_of(run: Path) -> list[tuple[int, Path]]:
    """(step, folder) of the whole checkpoints of a run. Raises GrailError when there are none."""
    if not run.is_dir():
        raise GrailError("no such run folder.", where=str(run), kind="missing_file",
                         hint="give the folder that `grail train --out` wrote.")
    found = sorted((int(p.name.removeprefix("checkpoint-")), p) for p in run.glob("checkpoint-*")
                   if p.name.removeprefix("checkpoint-").isdigit()
                   and ((p / "config.json").is_file() or is_adapter(p)))
    if not found:
        raise GrailError("no checkpoint-N folder with a config.json in it.", where=str(run), kind="missing_file",
                         hint="for a single model: grail analyze --model FOLDER --rollouts FILE.jsonl")
    return found


def results_root(runs: list[Path], labels: list[str], results: Path | None) -> Path | None:
    """The folder of results: the one given, else the first results/ in the run, beside it, or here with a label in it."""
    if results is not None:
        if not results.is_dir():
            raise GrailError("no such folder.", where=f"--results {results}", kind="missing_file",
                             hint="grail eval --model CHECKPOINT --out " + str(results))
        return results
    places = [place / "results" for run in runs for place in (run, run.resolve().parent)] + [Path("results")]
    return next((place for place in places if any((place / label).is_dir() for label in labels)), None)


def plan_runs(runs: list[Path], *, results: Path | None, rollouts: Path | None, texts: str) -> Plan:
    """What to do for runs: a task a checkpoint. Raises GrailError when no checkpoint has texts."""
    found = [(run, step, folder) for run in runs for step, folder in checkpoints_of(run)]
    labels = [f"{run.resolve().name}@step-{step}" for run, step, _ in found]
    if len(set(labels)) < len(labels):
        raise GrailError("two runs have the same name, so that their checkpoints cannot be told apart.",
                         where="--checkpoints", hint="give run folders with different names.")
    if rollouts is not None:
        return Plan([_task(label, entry, f"shared texts: {rollouts.name}",
                           lambda tok, prompts: read_rollouts(rollouts, tok, prompts))
                     for label, entry in zip(labels, found, strict=True)], {})
    root = results_root(runs, labels, results)
    files = {label: sample_files(root / label) if root else [] for label in labels}
    having = [label for label in labels if files[label]]
    if not having:
        place, names = str(root) if root else "results/", ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
        raise GrailError(
            f"no samples for any of {len(labels)} checkpoints ({names}) in {place}.",
            where=str(runs[0]), kind="missing_file",
            hint=f"grail eval --model {found[-1][2]}, or replay training batches: --rollouts {runs[0] / 'completions'}")
    if texts == "shared":
        chosen = files[having[-1]]
        return Plan([_task(label, entry, f"shared texts: samples of {having[-1]}", _samples_reader(chosen))
                     for label, entry in zip(labels, found, strict=True)], {})
    skipped = {label: f"no samples in {root / label}" for label in labels if not files[label]}
    return Plan([_task(label, entry, "own texts of each checkpoint", _samples_reader(files[label]))
                 for label, entry in zip(labels, found, strict=True) if files[label]], skipped)


def sample_files(folder: Path) -> list[tuple[str, Path]]:
    """(suite, file) of finished suites in one model's results; the reference's result-SUITE-*.jsonl count as well."""
    ours = [(p.parent.name, p) for p in sorted(folder.glob("*/samples.jsonl"))]
    return ours or [(p.stem.split("-")[1], p) for p in sorted(folder.glob("result-*-*.jsonl"))]


def _task(label: str, entry: tuple[Path, int, Path], texts: str, read: Reader) -> Task:
    run, step, folder = entry
    return Task(label, str(folder), texts, read, run.resolve().name, step)


def _samples_reader(files: list[tuple[str, Path]]) -> Reader:
    def read(tokenizer: PreTrainedTokenizerBase, prompts: PromptSettings) -> list[Rollout]:
        return [checked(r, tokenizer) for suite, path in files
                for r in sample_rollouts(read_jsonl(path), tokenizer, prompts, suite)]
    return read
