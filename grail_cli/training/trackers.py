"""Trackers beside metrics.jsonl: optional, never the truth, and the same run again after a resume.

transformers' own callbacks talk to them; this module only says which run they belong to. wandb gets an id
that is kept in the manifest, trackio is re-attached by the run's name, tensorboard writes into the run
folder. Tokens come from the environment alone.
"""

import hashlib
import importlib.util
import os

from ..errors import GrailError
from .record import RunRecord

MODULES = {"wandb": "wandb", "trackio": "trackio", "tensorboard": "tensorboard"}


def tracker_faults(report_to: list[str]) -> list[GrailError]:
    """Trackers that were asked for and are not installed."""
    return [
        GrailError(
            f"{name} is not installed.",
            where="train.report_to",
            kind="missing_here",
            hint=f"pip install {name}",
        )
        for name in report_to
        if importlib.util.find_spec(MODULES[name]) is None
    ]


def attach(report_to: list[str], record: RunRecord) -> dict[str, str]:
    """The environment that ties this attempt to the trackers' run; it is set, and what the user set stays.

    The id follows from the run folder and its first start, so that every attempt has the same.
    """
    first = record.attempts()[0]
    text = f"{record.folder.resolve()} {first['started']} {first['pid']}"
    identity = hashlib.sha256(text.encode()).hexdigest()[:16]
    wanted = {}
    if "wandb" in report_to:
        wanted |= {"WANDB_RUN_ID": identity, "WANDB_RESUME": "allow", "WANDB_PROJECT": "grail",
                   "WANDB_DIR": str(record.folder / "logs")}
    if "tensorboard" in report_to:
        wanted["TENSORBOARD_LOGGING_DIR"] = str(record.folder / "logs" / "tensorboard")
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    return {name: os.environ[name] for name in wanted}
