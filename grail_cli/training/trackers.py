"""Trackers beside metrics.jsonl: optional, never the truth, never fatal, and the same run again after a resume.

transformers' own callbacks talk to them; this module says which run they belong to and keeps them in their place.
wandb gets an id and trackio a name that follow from the run's first attempt, tensorboard writes into the run folder and
hides the steps that a resume does again. Tokens come from the environment alone.
"""

import hashlib
import importlib.util
import netrc
import os
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import urlsplit

from ..errors import GrailError
from .record import RunRecord

MODULES = {"wandb": "wandb", "trackio": "trackio", "tensorboard": "tensorboard"}
PROJECT = "grail"
QUIET_WANDB = ("offline", "dryrun", "disabled")  # modes that ask nobody for a key
EVENTS = ("on_train_begin", "on_log", "on_save", "on_train_end")


def tracker_faults(report_to: list[str]) -> list[GrailError]:
    """Trackers that were asked for and are not installed, and a wandb that would ask for its key or end the run."""
    faults = [
        GrailError(
            f"{name} is not installed.",
            where="train.report_to",
            kind="missing_here",
            hint=f"pip install {name}",
        )
        for name in report_to
        if importlib.util.find_spec(MODULES[name]) is None
    ]
    if "wandb" in report_to and os.environ.get("WANDB_MODE") not in QUIET_WANDB and not _knows_wandb():
        faults.append(GrailError("wandb has no key here.", where="train.report_to", kind="missing_here",
                                 hint="set WANDB_API_KEY, call `wandb login`, or set WANDB_MODE=offline."))
    return faults


def _knows_wandb() -> bool:
    """Whether wandb finds a key without asking: in the environment, or where `wandb login` puts it."""
    if any(os.environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    for path in filter(None, (os.environ.get("NETRC"), "~/.netrc", "~/_netrc")):
        try:
            return netrc.netrc(os.path.expanduser(path)).authenticators(host) is not None
        except (OSError, netrc.NetrcParseError):
            continue
    return False


def identity(record: RunRecord) -> str:
    """The run's name among trackers: from its first attempt, so that every attempt has the same, wherever the folder is.
    """
    first = record.attempts()[0]
    return hashlib.sha256(f"{first['host']} {first['started']} {first['pid']}".encode()).hexdigest()[:16]


def attach(report_to: list[str], record: RunRecord) -> dict[str, str]:
    """The environment that ties this attempt to the trackers' run; it is set, and what the user set stays."""
    wanted = {}
    if "wandb" in report_to:
        wanted |= {"WANDB_RUN_ID": identity(record), "WANDB_RESUME": "allow", "WANDB_PROJECT": PROJECT,
                   "WANDB_DIR": str((record.folder / "logs").resolve()),
                   "WANDB_CONSOLE": "off"}  # logs/ has it, and wandb's capture would take standard output over
    if "tensorboard" in report_to:
        wanted["TENSORBOARD_LOGGING_DIR"] = str((record.folder / "logs" / "tensorboard").resolve())
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    attached = {name: os.environ[name] for name in wanted}
    return attached | (_trackio_run(record) if "trackio" in report_to else {})


def _trackio_run(record: RunRecord) -> dict[str, str]:
    return {"TRACKIO_PROJECT": PROJECT, "TRACKIO_RUN": f"{record.folder.name}-{identity(record)[:8]}"}


def arguments(report_to: list[str], record: RunRecord) -> dict[str, str]:
    """What GRPOConfig must know: trackio finds a run by project and name, and folders of one name are not one run."""
    if "trackio" not in report_to:
        return {}
    found = _trackio_run(record)
    return {"project": found["TRACKIO_PROJECT"], "run_name": found["TRACKIO_RUN"]}


def tame(trainer, step: int, stack: ExitStack, *, phases, warn: Callable[[str], None]) -> None:
    """Make the trackers of a trainer harmless: a fault switches one off with a word, and all of them are told the end.

    step: where training goes on from; what TensorBoard has after it is hidden. stack: closed when training has ended,
    well or not.
    """
    for callback in trainer.callback_handler.callbacks:
        name = type(callback).__name__.removesuffix("Callback").lower()
        if name not in MODULES:
            continue
        if name == "tensorboard" and trainer.is_world_process_zero():
            callback.tb_writer = callback._SummaryWriter(log_dir=callback.logging_dir, purge_step=step + 1)
        _guard(callback, name, trainer, warn)
        if name == "wandb":  # its own hook at exit never runs in a launched rank, and writes to standard output
            stack.push(_finish_wandb(callback, phases, warn))


def _guard(callback, name: str, trainer, warn: Callable[[str], None]) -> None:
    def guarded(event: str):
        method = getattr(callback, event)

        def run(*args, **kwargs):
            if name not in trainer.args.report_to:
                return None
            try:
                return method(*args, **kwargs)
            # foreign code that only watches: whatever it raises, training goes on
            except Exception as error:
                first = (str(error).strip() or "no message").splitlines()[0]
                warn(f"{name} is switched off for this attempt: {type(error).__name__}: {first}; "
                     "metrics.jsonl has everything.")
                trainer.args.report_to = [other for other in trainer.args.report_to if other != name]  # TRL asks it, too
                return None
        return run

    for event in EVENTS:
        setattr(callback, event, guarded(event))


def _finish_wandb(callback, phases, warn: Callable[[str], None]):
    def finish(kind, error, trace) -> bool:
        run = getattr(callback._wandb, "run", None)
        if run is not None:
            with phases("end"):
                try:
                    run.finish(exit_code=0 if kind is None else 1)
                # foreign code, and training is over
                except Exception as fault:
                    warn(f"wandb did not end well: {type(fault).__name__}: {fault}")
        return False
    return finish
