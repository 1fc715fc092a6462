"""The servers of this machine that are ours: start times are recorded, so no reused pid is ever signalled.

One JSON file a server in $GRAIL_HOME/servers (default ~/.cache/grail/servers), written by its guard. Only
what these files record is ever stopped, never a process found by name or port.
"""

import json
import os
import re
import shlex
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import GrailError, RunFailed, nearest
from ..files import process_started
from .guard import KILL_DEADLINE_S, group_exists, group_members, remove, send
from .ports import root_url

SAME_START_S = 2.0  # start times are computed from clock ticks and boot time: equal within this
KEEP_LOGS_S = 14 * 24 * 3600.0


def home() -> Path:
    """The folder of the tool's own files: $GRAIL_HOME, or ~/.cache/grail."""
    return Path(os.environ.get("GRAIL_HOME") or Path.home() / ".cache" / "grail")


def servers_folder() -> Path:
    """Where state files and logs of servers are; made when missing."""
    folder = home() / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_same_process(pid: int | None, started: float | None) -> bool:
    """Whether a pid is still the process that was recorded with that start time."""
    if not pid or started is None:
        return False
    now = process_started(pid)
    return now is not None and abs(now - started) < SAME_START_S


@dataclass(frozen=True)
class Entry:
    """A server as its state file records it."""

    name: str
    path: Path
    data: dict

    @property
    def guard_lives(self) -> bool:
        return is_same_process(self.data.get("guard_pid"), self.data.get("guard_started"))

    @property
    def server_lives(self) -> bool:
        return is_same_process(self.data.get("pid"), self.data.get("pid_started"))

    @property
    def status(self) -> str:
        """`starting`, `ready`, `orphan` (its guard was killed, the server was not) or `dead`."""
        if self.data.get("state") == "claimed":
            return "starting" if is_same_process(self.data.get("claimed_by"),
                                                 self.data.get("claimed_started")) else "dead"
        if self.guard_lives and self.data.get("state") != "dead":
            return self.data["state"]
        return "orphan" if self.leftovers() else "dead"

    def leftovers(self) -> list[int]:
        """Processes of the server's group, when that group is still the recorded one."""
        pgid, started = self.data.get("pid"), self.data.get("pid_started")
        if not pgid or started is None or pgid == os.getpgrp() or not group_exists(pgid):
            return []
        if process_started(pgid) is not None and not self.server_lives:
            return []  # the number was given to another process: its group is not ours
        return [pid for pid in group_members(pgid) if (process_started(pid) or 0) >= started - SAME_START_S]

    @property
    def url(self) -> str:
        return f"{root_url(self.data.get('host', '127.0.0.1'), self.data.get('port'))}/v1"


def claim(label: str, data: dict) -> Path:
    """Reserve a name for a new server: `label`, else `label-2`, ...; returns the path of its state file."""
    folder = servers_folder()
    safe = re.sub(r"[^\w.@-]+", "-", label).strip("-.") or "server"
    number = 1
    while True:
        path = folder / (f"{safe}.json" if number == 1 else f"{safe}-{number}.json")
        beside = folder / f".claim.{os.getpid()}.{threading.get_ident()}.tmp"  # threads start servers side by side
        beside.write_text(json.dumps({**data, "state": "claimed", "claimed_by": os.getpid(),
                                      "claimed_started": process_started(os.getpid())}), encoding="utf-8")
        try:
            os.link(beside, path)  # fails when the name exists, whole when it does not
            return path
        except FileExistsError:
            entry = read_entry(path)
            if entry is not None and entry.status == "dead":
                remove(str(path))
            else:
                number += 1
        finally:
            beside.unlink()


def read_entry(path: Path) -> Entry | None:
    """The entry of a state file; None when the file has gone or is no state file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return Entry(path.stem, path, data) if isinstance(data, dict) else None


def entries() -> list[Entry]:
    """All recorded servers, by name."""
    folder = home() / "servers"
    found = [read_entry(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return [entry for entry in found if entry is not None]


def find(name: str) -> Entry:
    """The server of that name. Raises GrailError with the known names."""
    known = entries()
    for entry in known:
        if entry.name == name:
            return entry
    hint = nearest(name, [entry.name for entry in known]) if known else "no server of ours is recorded here."
    raise GrailError(f"no server named {name!r}.", where="grail serve", kind="unknown_server", hint=hint)


def orphan_warnings(found: list[Entry]) -> list[str]:
    """A sentence for every server of ours whose guard was killed while it lived on, with the command that ends it."""
    return [f"{entry.name}: its guard was killed and the server lives on (pids "
            f"{', '.join(map(str, entry.leftovers()))}); end it with: grail serve --stop {shlex.quote(entry.name)}"
            for entry in found if entry.status == "orphan"]


def on_port(port: int) -> Entry | None:
    """The living server of ours that has, or is about to have, a port."""
    return next((entry for entry in entries() if entry.data.get("port") == port and entry.status != "dead"),
                None)


def forget(entry: Entry, *, log: bool = False) -> None:
    """Drop the state file, and the log when it is one that we keep for the server."""
    remove(str(entry.path))
    if log and entry.data.get("own_log"):
        remove(entry.data["log"])


def stop(entry: Entry) -> None:
    """End a server and all that came out of it. Raises RunFailed naming processes that would not die."""
    grace_s = float(entry.data.get("grace_s", 30.0))
    if entry.guard_lives:
        send(entry.data["guard_pid"], signal.SIGTERM)
        deadline = time.monotonic() + grace_s + 2 * KILL_DEADLINE_S
        while entry.guard_lives and time.monotonic() < deadline:
            time.sleep(0.05)
    end_leftovers(entry, grace_s)
    left = entry.leftovers()
    if left:
        raise RunFailed(f"server {entry.name!r}: processes {', '.join(map(str, left))} survived SIGKILL.",
                        where="grail serve --stop",
                        kind="stuck",
                        hint="a GPU driver holds them: `nvidia-smi` tells; a reboot may be needed.")
    forget(entry, log=True)


def end_leftovers(entry: Entry, grace_s: float) -> None:
    """SIGTERM, grace, SIGKILL to a group whose guard has gone."""
    for signum, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_DEADLINE_S)):
        deadline = time.monotonic() + wait_s
        for pid in entry.leftovers():
            send(pid, signum)
        while entry.leftovers() and time.monotonic() < deadline:
            time.sleep(0.05)


def prune_logs() -> None:
    """Remove logs of failed servers that nobody came for within two weeks."""
    used = {entry.data.get("log") for entry in entries()}
    for path in (home() / "servers").glob("*.log"):
        if str(path) not in used and time.time() - path.stat().st_mtime > KEEP_LOGS_S:
            remove(str(path))
