"""Which folders hold a model's results, and what each model is called."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import GrailError, nearest, raise_all

REFERENCE_FILES = "result-*-*.jsonl"
JOURNAL = "samples.journal.jsonl"
DEPTH = 3  # folders below a given one that are searched


class Found(NamedTuple):
    """A folder with one model's results; run and step when it is a checkpoint's."""

    folder: Path
    label: str
    run: str
    step: int | None


def find(paths: Sequence[str | Path]) -> list[Found]:
    """The model folders at and below the paths, each once, in the order given, then by name; labels unique.

    Raises GrailError (several at once as Faults) for a path that is missing, a file, or without any results.
    """
    folders, faults = [], []
    for path in map(Path, paths):
        try:
            folders += [
                folder for folder in _below(path) if folder.resolve() not in {f.resolve() for f in folders}
            ]
        except GrailError as fault:
            faults.append(fault)
    raise_all(faults)
    return _labelled(folders)


def has_results(folder: Path) -> bool:
    """Whether a folder is one model's: SUITE/samples.jsonl inside, or the reference's result-*-*.jsonl."""
    return any(folder.glob("*/samples.jsonl")) or any(folder.glob(REFERENCE_FILES))


def _below(path: Path) -> list[Path]:
    if path.is_file():
        raise GrailError(
            "a file, where a folder with results is needed.",
            where=str(path),
            kind="bad_file",
            hint=f"give the folder: {path.parent.parent if path.name == 'samples.jsonl' else path.parent}.",
        )
    if not path.is_dir():
        raise GrailError(f"no such folder{_near(path)}.", where=str(path), kind="missing_file")
    level, found = [path], []
    for _ in range(DEPTH + 1):
        found += [folder for folder in level if has_results(folder)]
        level = [
            child
            for folder in level
            if not has_results(folder)
            for child in sorted(folder.iterdir(), key=_natural)
            if child.is_dir() and not child.name.startswith((".", "old-"))
        ]  # old-N: results moved aside
    if not found:
        raise GrailError(*_empty(path), where=str(path), kind="no_results")
    return found


def _empty(path: Path) -> tuple[str]:
    if (path / "samples.jsonl").exists():
        return (f"the folder of one suite; give the model's folder, {path.resolve().parent}.",)
    journals = sorted(path.rglob(JOURNAL))
    if journals:
        return (
            f"no suite is finished here yet: {journals[0].relative_to(path)} is still being sampled (run "
            "its grail eval again to go on).",
        )
    if not any(path.iterdir()):
        return ("an empty folder; a model's results are SUITE/samples.jsonl in it.",)
    return ("no results in it: neither SUITE/samples.jsonl nor the reference's result-*-*.jsonl.",)


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    names = [child.name for child in path.parent.iterdir() if child.is_dir()]
    hint = nearest(path.name, names) if names else ""
    return f"; {hint.rstrip('?')}" if hint.startswith("did you mean") else ""


def _natural(path: Path) -> list:
    """checkpoint-50 before checkpoint-100."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def _labelled(folders: list[Path]) -> list[Found]:
    """Label each folder by its name, with as many parents before it as tell equal names apart."""
    parts = {folder: _name_parts(folder) for folder in folders}
    length = dict.fromkeys(folders, 1)
    while True:
        labels = {folder: "/".join(parts[folder][-length[folder] :]) for folder in folders}
        twice = [
            f for f in folders if list(labels.values()).count(labels[f]) > 1 and length[f] < len(parts[f])
        ]
        if not twice:
            break
        for folder in twice:
            length[folder] += 1
    return [Found(folder, label, *_checkpoint(label)) for folder, label in labels.items()]


def _name_parts(folder: Path) -> tuple[str, ...]:
    """The path's names; RUN/checkpoint-N, as the reference lays its folders, is one name: RUN@step-N."""
    *parents, name = folder.resolve().parts
    if (match := re.fullmatch(r"checkpoint-(\d+)", name)) and parents:
        *parents, run = parents
        name = f"{run}@step-{match[1]}"
    return (*parents, name)


def _checkpoint(label: str) -> tuple[str, int | None]:
    """(run, step) of a label RUN@step-N."""
    match = re.fullmatch(r"(.+)@step-(\d+)", label)
    return (match[1], int(match[2])) if match else ("", None)
