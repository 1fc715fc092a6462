"""Several processes, one run: `accelerate launch` as a child, watched until it has ended, with nothing left
behind.

The parent holds no model. It hands the ranks a folder of logs with everything they need, follows
metrics.jsonl for the live view, asks them to stop through a file, and says which rank failed and what its
last lines were.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import yaml

from ..console import Console
from ..errors import RunFailed
from ..files import read_json, read_jsonl, write_json, write_text
from ..presets.schema import Preset
from .config import processes
from .record import RunRecord

POLL_S = 0.2
FAILED_GRACE_S = 3.0
STARTED, RESULT, EVENTS, ORDER, STOP_FILE = "training", "result.json", "events.jsonl", "launch.json", ".stop"


def accelerate_config(preset: Preset, port: int) -> dict:
    """The whole configuration of accelerate, so that no default_config.yaml of the user's can leak in."""
    launch = preset.launch
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU",
        "num_processes": processes(preset),
        "num_machines": launch.machines,
        "machine_rank": launch.rank,
        "main_process_ip": launch.main_address,
        "main_process_port": port,
        "rdzv_backend": "static",
        "same_network": True,
        "mixed_precision": "no",
        "gpu_ids": "all",
        "use_cpu": False,
        "downcast_bf16": "no",
        "main_training_function": "main",
        "tpu_env": [],
        "tpu_use_cluster": False,
        "tpu_use_sudo": False,
        "debug": False,
        "enable_cpu_affinity": False,
    }


def command(folder: Path, logs: Path) -> list[str]:
    """The launch command, as a person would type it."""
    return [
        "accelerate",
        "launch",
        "--config_file",
        str(logs / "accelerate.yaml"),
        "-m",
        "grail_cli.training.rank",
        str(folder),
        str(logs),
    ]


def launch(folder: Path, preset: Preset, *, checkpoint: Path | None, out: Console, view, server=None):
    """Train `preset` with its processes and machines; returns the main rank's RankResult.

    server: the run's vLLM server, whose death ends the run. Raises RunFailed with the first failing rank's
    own words.
    """
    from .rank import RankResult

    main = preset.launch.rank == 0
    logs = RunRecord(folder).logs if main else folder / "logs" / f"machine-{preset.launch.rank}"
    if not main:  # one folder a machine: an earlier attempt's faults are not this one's
        shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True, exist_ok=True)
    if main:
        (folder / STOP_FILE).unlink(missing_ok=True)
    port = preset.launch.main_port or free_port()
    write_text(
        logs / "preset.yaml",
        yaml.safe_dump(preset.model_dump(mode="json", exclude={"base"}), sort_keys=False),
    )
    write_text(logs / "accelerate.yaml", yaml.safe_dump(accelerate_config(preset, port), sort_keys=False))
    write_json(logs / ORDER, {
        "checkpoint": str(checkpoint) if checkpoint else None, "port": port,
        "sampler": server.arguments() if server else {}})
    out.say("launching: " + " ".join(command(folder, logs)))
    with open(logs / "launcher.log", "wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "grail_cli.training.agent", *command(folder, logs)[2:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(preset),
        )
    watch = _Watch(folder, logs, child, out, view, server)
    try:
        watch.until_end()
    finally:
        end_group(child, grace_s=1.0)
        (folder / STOP_FILE).unlink(missing_ok=True)
    if watch.signum and not (logs / RESULT).exists():
        return RankResult("interrupted", 0, watch.signum, {})
    if child.returncode != 0 or (main and not (logs / RESULT).exists()):
        raise failure(logs, child.returncode)
    if not main:
        return RankResult("done", 0, None, {})
    found = read_json(logs / RESULT)
    return RankResult(found["outcome"], found["step"], watch.signum or found["signum"], found["metrics"])


def environment(preset: Preset) -> dict[str, str]:
    """The child's environment: ours, with the GPUs chosen and one thread a rank unless the user said otherwise."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // preset.launch.processes)))
    if preset.launch.gpus:
        env["CUDA_VISIBLE_DEVICES"] = preset.launch.gpus.replace(" ", "")
    return env


class _Watch:
    """Follows a launched run: metrics to the view, events to the console, signals to the ranks."""

    def __init__(self, folder: Path, logs: Path, child: subprocess.Popen, out: Console, view, server):
        self.server = server
        self.folder, self.logs, self.child, self.out, self.view = folder, logs, child, out, view
        self.metrics, self.signum = folder / "metrics.jsonl", None
        self._rows = len(read_jsonl(self.metrics)) if self.metrics.exists() else 0
        self._events = 0

    def until_end(self) -> None:
        former = {
            signum: signal.signal(signum, self._receive)
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            while self.child.poll() is None:
                time.sleep(POLL_S)
                self._pass_on()
                if self.server is not None:
                    self.server.check_alive()
                if self._a_rank_failed():
                    return  # the others wait in a collective for it: torch would give them another 30 s
            self._pass_on()
        finally:
            for signum, handler in former.items():
                signal.signal(signum, handler)

    def _a_rank_failed(self) -> bool:
        """Whether a rank has written its fault a moment ago, and the launcher has not ended by itself since.
        """
        written = [path.stat().st_mtime for path in self.logs.glob("rank-*.error.json")]
        return bool(written) and time.time() - min(written) > FAILED_GRACE_S

    def _pass_on(self) -> None:
        for path, seen, act in (
            (self.metrics, "_rows", self.view.show),
            (self.logs / EVENTS, "_events", self._event),
        ):
            if path.exists():
                rows = read_jsonl(path)[getattr(self, seen):]
                setattr(self, seen, getattr(self, seen) + len(rows))
                for row in rows:
                    act(row)

    def _event(self, row: dict) -> None:
        (self.out.warn if row["level"] == "warn" else self.out.say)(row["text"])

    def _receive(self, signum: int, frame: object) -> None:
        name = signal.Signals(signum).name
        if self.signum is not None:
            self.out.say(f"{name} again: stopping at once.")
            end_group(self.child, grace_s=1.0)
        elif (self.logs / STARTED).exists():
            self.out.say(f"{name}: all ranks finish this step, then save. Once more stops at once.")
            (self.folder / STOP_FILE).touch()
        else:
            self.out.say(f"{name} before the first step: stopping.")
            (self.folder / STOP_FILE).touch()  # for ranks that are not there yet: the launcher is deaf
            os.killpg(self.child.pid, signal.SIGTERM)
        self.signum = signum


def end_group(child: subprocess.Popen, grace_s: float) -> None:
    """End whatever is left of the child's process group: SIGTERM, then SIGKILL."""
    for signum, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, signum)
        except ProcessLookupError:
            break
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            child.poll()
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
    child.wait()


def failure(logs: Path, code: int) -> RunFailed:
    """The fault of the rank that failed first, in its own words, with the end of its log on standard error.
    """
    errors = sorted(
        (read_json(path) for path in logs.glob("rank-*.error.json")), key=lambda error: error["time"]
    )
    if not errors:
        tail = _tail(logs / "launcher.log", 15)
        killed = next((line for line in tail if "Signal" in line or "exitcode" in line), "")
        return RunFailed(
            f"a training process died without a word (launcher exit code {code}). {killed.strip()}",
            where=str(logs),
            kind="rank_died",
            hint="-9 is usually the kernel out of memory; see launcher.log and the rank logs there.",
        )
    first = errors[0]
    for line in _tail(logs / f"rank-{first['rank']}.log", 20):
        print(f"rank {first['rank']}: {line}", file=sys.stderr)
    return RunFailed(
        f"rank {first['rank']} failed: {first['message']}",
        hint=first["hint"],
        kind=first["kind"],
        where=str(logs / f"rank-{first['rank']}.log"),
    )


def _tail(path: Path, lines: int) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:] if path.exists() else []


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class EventConsole(Console):
    """The console of a launched rank: what it says goes through a file to the parent's."""

    def __init__(self, logs: Path):
        super().__init__(quiet=True)
        self.path = logs / EVENTS

    def say(self, text: str) -> None:
        self._write("say", text)

    def warn(self, text: str) -> None:
        self._write("warn", text)

    def _write(self, level: str, text: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"level": level, "text": text}) + "\n")
