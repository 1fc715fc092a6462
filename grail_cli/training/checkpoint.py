"""Checkpoints that are whole or not there: written aside, synced, sealed with a list of their files, renamed.

A checkpoint `RUN/checkpoint-N` holds what `from_pretrained` reads, the prompt stamp `grail.json`, the seal
`checkpoint.json` (step, fingerprint, files with sizes, metrics), and, while it is resumable, optimiser,
random generators and the rollout buffer of every rank. Retention is declared: the newest `keep_last` stay
resumable, of the older ones the weights stay at every `keep_every`-th step, and so do those of the best.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..console import counted
from ..errors import GrailError
from ..files import read_json, sync_folder, write_json

SEAL = "checkpoint.json"
SEAL_VERSION = 1
STAGING = ".saving"
RESUME_FILES = (
    "optimizer.pt",
    "scheduler.pt",
    "scaler.pt",
    "rng_state*.pth",
    "rank-*.pt",
    "training_args.bin",
    "global_step*",
    "latest",
    "zero_to_*.py",
    "trainer_state.json",
)


@dataclass(frozen=True)
class Sealed:
    """A checkpoint as its seal describes it."""

    path: Path
    step: int
    resumable: bool
    fingerprint: dict
    metrics: dict


def seal(folder: Path, step: int, fingerprint: dict, metrics: dict, *, resumable: bool = True) -> None:
    """Sync every file of a folder and write the seal last."""
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != SEAL:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            sizes[str(path.relative_to(folder))] = path.stat().st_size
    write_json(
        folder / SEAL,
        {
            "version": SEAL_VERSION,
            "step": step,
            "resumable": resumable,
            "fingerprint": fingerprint,
            "metrics": metrics,
            "files": sizes,
        },
    )


def read_seal(folder: Path) -> Sealed:
    """The seal of a checkpoint, its files compared with it. Raises GrailError that says what is torn."""
    where = str(folder)
    if not (folder / SEAL).is_file():
        raise GrailError("has no seal: it was not written to its end.", where=where, kind="torn")
    raw = read_json(folder / SEAL)
    if not isinstance(raw, dict) or raw.get("version") != SEAL_VERSION:
        raise GrailError(f"its seal is not of version {SEAL_VERSION}.", where=where, kind="torn")
    for name, size in raw["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            found = f"{path.stat().st_size} bytes" if path.is_file() else "missing"
            raise GrailError(f"{name} is {found}, not {size} bytes.", where=where, kind="torn")
    return Sealed(folder, raw["step"], raw["resumable"], raw["fingerprint"], raw["metrics"])


def checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run, oldest first, whole or not."""
    found = [path for path in run.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("checkpoint-")))


def newest_resumable(run: Path, say=lambda text: None) -> Sealed | None:
    """The newest whole checkpoint that training can go on from; torn ones are skipped with a word through `say`."""
    for path in reversed(checkpoints(run)):
        try:
            found = read_seal(path)
        except GrailError as error:
            say(f"skipping {path.name}: {error.message}")
            continue
        if found.resumable:
            return found
    return None


@contextmanager
def staged(run: Path, step: int) -> Iterator[Path]:
    """Give the folder that checkpoint `step` is written into; on success move it to its place in one rename.

    For the main process. A checkpoint of that step that is already there is replaced.
    """
    aside = run / STAGING
    yield aside / f"checkpoint-{step}"
    final = run / f"checkpoint-{step}"
    if final.exists():
        old = aside / f"replaced-{step}"
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    (aside / f"checkpoint-{step}").rename(final)
    sync_folder(run)
    shutil.rmtree(aside, ignore_errors=True)


def keep(run: Path, *, last: int, every: int | None, best: str | None) -> list[str]:
    """Apply the retention policy and return what was done, a line a checkpoint.

    The newest `last` whole checkpoints are untouched. An older one loses its optimiser state when its step is
    a multiple of `every` (None: always) or it has the largest value of metric `best`, and goes otherwise.
    """
    whole = []
    for path in checkpoints(run):
        try:
            whole.append(read_seal(path))
        except GrailError:
            continue  # not ours to judge: resume names it, and nothing else reads it
    done = []
    valued = [
        (found.metrics[best], found.step) for found in whole if best and found.metrics.get(best) is not None
    ]
    best_step = max(valued)[1] if valued else None
    for found in whole[:-last]:
        if every is None or found.step % every == 0 or found.step == best_step:
            if found.resumable:
                slim(found)
                done.append(f"checkpoint-{found.step}: kept its weights only")
        else:
            shutil.rmtree(found.path)
            done.append(f"checkpoint-{found.step}: removed")
    return done


def slim(found: Sealed) -> None:
    """Take the state that only a resume needs out of a checkpoint; the seal says so before the first file goes."""
    drop = [path for pattern in RESUME_FILES for path in found.path.glob(pattern)]
    raw = read_json(found.path / SEAL)
    names = {str(path.relative_to(found.path)) for path in drop}
    raw["files"] = {name: size for name, size in raw["files"].items() if name.split("/")[0] not in names}
    write_json(found.path / SEAL, {**raw, "resumable": False})
    for path in drop:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def retention_sentence(
    last: int, every: int | None, best: str | None, save_steps: int, max_steps: int
) -> str:
    """What will be on disk at the end, said before the start."""
    saves = -(-max_steps // save_steps)
    text = f"{counted(saves, 'checkpoint')}, one every {save_steps} steps; the newest {last} can be resumed; "
    text += "weights stay of "
    text += "all of them" if every is None else f"every {every}th step"
    return text + (f" and of the best {best}." if best else ".")
