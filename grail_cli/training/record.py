"""The run folder: what was asked (preset.yaml), what ran (manifest.json), what happened (metrics.jsonl,
completions/, logs/).

`metrics.jsonl` is the truth: a line an optimiser step, cut back to the checkpoint when a run resumes. A
folder that exists is never written into without --resume.
"""

import math
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

from .. import __version__
from ..errors import GrailError
from ..files import append_jsonl, mend_jsonl, read_json, read_jsonl, write_bytes, write_json, write_text
from . import rollouts

SCHEMA_VERSION = 1


class RunRecord:
    """The files of one run; `begin` opens an attempt, `end` closes it with its outcome."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.metrics_path, self.manifest_path = folder / "metrics.jsonl", folder / "manifest.json"
        self.completions = folder / "completions"

    @property
    def logs(self) -> Path:
        """Folder of the newest attempt's logs."""
        return self.folder / "logs" / f"attempt-{len(self.attempts())}"

    def attempts(self) -> list[dict]:
        return read_json(self.manifest_path)["attempts"] if self.manifest_path.exists() else []

    def refuse_if_taken(self, resume: bool) -> None:
        """Raise GrailError when the folder holds something and --resume was not given, or holds no run to resume."""
        if self.folder.is_file():
            raise GrailError("a file, where a run folder is needed.", where=f"--out {self.folder}",
                             hint="choose another --out.")
        present = self.folder.is_dir() and any(path.name != ".lock" for path in self.folder.iterdir())
        if present and not resume:
            raise GrailError(
                "exists already; nothing was written.",
                where=f"--out {self.folder}",
                kind="exists",
                hint=f"go on with it: grail train --resume {shlex.quote(str(self.folder))}, or choose another --out.",
            )
        if resume and not self.manifest_path.exists():
            raise GrailError("holds no run to resume (no manifest.json).", where=f"--resume {self.folder}",
                             kind="missing_file", hint="give the folder of an earlier `grail train --out`.")

    def begin(self, preset_yaml: str, facts: dict) -> None:
        """Open an attempt: preset.yaml and manifest.json are there before anything heavy is."""
        for folder in (self.folder, self.completions):
            folder.mkdir(parents=True, exist_ok=True)
        attempts = self.attempts()
        write_text(self.folder / "preset.yaml", preset_yaml)
        attempt = {
            "command": sys.argv,
            "started": now(),
            "host": platform.node(),
            "pid": os.getpid(),
            "outcome": "running",
        }
        write_json(
            self.manifest_path,
            {
                "schema_version": SCHEMA_VERSION,
                "grail": __version__,
                **facts,
                "outcome": "running",
                "attempts": [*attempts, attempt],
            },
        )
        self.logs.mkdir(parents=True, exist_ok=True)
        latest = self.folder / "logs" / "latest"
        latest.unlink(missing_ok=True)
        latest.symlink_to(self.logs.name)

    def note(self, **facts) -> None:
        """Put what only the running process knows (device, parameters, ...) into the manifest."""
        write_json(self.manifest_path, {**read_json(self.manifest_path), **facts})

    def end(self, outcome: str, step: int | None = None) -> None:
        """Close the attempt: done, failed, interrupted; with the last step when it is known."""
        manifest = read_json(self.manifest_path)
        manifest["attempts"][-1] |= {"ended": now(), "outcome": outcome} | (
            {} if step is None else {"step": step}
        )
        write_json(self.manifest_path, {**manifest, "outcome": outcome})

    def cut_back(self, step: int) -> None:
        """Forget what was recorded after an optimiser step."""
        mend_jsonl(self.metrics_path)
        if self.metrics_path.exists():
            import json

            kept = [row for row in read_jsonl(self.metrics_path) if row["step"] <= step]
            write_bytes(self.metrics_path, "".join(json.dumps(row) + "\n" for row in kept).encode())
        rollouts.cut_back(self.completions, step)

    def add_metrics(self, row: dict) -> None:
        """Append the line of a step; a value that is not finite is written as null."""
        append_jsonl(self.metrics_path, {key: finite(value) for key, value in row.items()})


def finite(value: object) -> object:
    """The value as JSON can hold it: NaN and infinity become None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def now() -> str:
    """The time with its zone, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def git_commit() -> str | None:
    """The commit of the working folder, with `-dirty` behind it when files differ; None outside a repository.
    """
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def hardware() -> dict:
    """The machine, as far as it is known without torch."""
    import psutil

    return {"cpus": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 2 ** 30, 1),
            "machine": platform.machine(), "system": platform.platform()}
