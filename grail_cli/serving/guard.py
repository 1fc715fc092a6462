"""The guard: a small process that starts one server in a group of its own and ends that whole group.

It runs as a script, in its own session, between the command that wants a server and the server. It stops the
server when told to, when it gets SIGTERM, SIGINT or SIGHUP, and when its owner is gone (SIGKILL included):
the owner's end shows as end-of-file on standard input, and, in case a forked child of the owner holds that
pipe open, as a changed parent. PR_SET_PDEATHSIG on the server would not do: it fires when the spawning
*thread* of the owner ends.

Orders come as lines of JSON on standard input, events go as lines of JSON to standard output:
    in   {"argv", "log", "state_path", "state", "grace_s"}; then {"do": "ready"|"detach"|"stop"|"kill", ...}
    out  {"event": "started", "pid"}; {"event": "noted"}; {"event": "exited", "code"}; {"event": "gone",
         "left": [pid, ...]}
Only the guard writes the state file, so that it is there before the owner can die and gone when the group is.
Standard library and psutil alone: it lives as long as the server and must stay small.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
OWNER_CHECK_S = 0.5  # how often the owner's life is looked at; the pipe tells at once, this is the second way
OWNERLESS_GRACE_S = 1.5  # grace when the owner is gone: nobody waits for answers any more
STRAGGLER_GRACE_S = 2.0  # grace for the rest of the group once the server itself has ended
KILL_DEADLINE_S = 5.0  # how long a process may take to vanish after SIGKILL (longer: stuck in the kernel)


class Guard:
    """One server from start to end."""

    def __init__(self, order: dict):
        self.order = order
        self.grace_s = float(order["grace_s"])
        self.detached = False
        self.hurry = False  # end the group now, without grace
        self.stop_asked = False
        self.exit_code: int | None = None
        self.owner = os.getppid()
        self.libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self.libc is not None:
            # orphans of the server come to us, not to init: those that left the group are found, too
            self.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wake, wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._asked_to_stop)
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)  # only to wake the loop

    def _asked_to_stop(self, signum: int, frame: object) -> None:
        self.hurry = self.hurry or self.stop_asked  # the second signal is not patient
        self.stop_asked = True

    def start(self) -> None:
        """Start the server in its own session; its output goes to the log file, never to a pipe."""

        def end_with_guard() -> None:
            if self.libc is not None:
                self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

        with open(self.order["log"], "ab") as log:
            server = subprocess.Popen(self.order["argv"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      start_new_session=True, preexec_fn=end_with_guard)  # we have no threads
        self.pid = server.pid
        server.returncode = 0  # reaped by `reap`, which keeps the status; Popen must not wait for it as well
        self.state = {**self.order["state"], "pid": self.pid, "pid_started": started(self.pid),
                      "guard_pid": os.getpid(), "guard_started": started(os.getpid()),
                      "owner_pid": self.owner,
                      "state": "starting", "detached": False}
        self.save()
        self.tell(event="started", pid=self.pid)

    def save(self) -> None:
        """Write the state file whole."""
        path = self.order["state_path"]
        beside = f"{path}.{os.getpid()}.tmp"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(self.state, file, indent=1)
        os.replace(beside, path)

    def tell(self, **event: object) -> None:
        try:
            os.write(1, (json.dumps(event) + "\n").encode())
        except OSError:
            pass  # nobody listens any more: the owner is gone or has detached

    def reap(self) -> None:
        """Collect ended children, adopted ones included; keeps the server's exit code."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def obey(self, line: bytes) -> None:
        order = json.loads(line)
        if order["do"] == "stop":
            self.stop_asked = True
        elif order["do"] == "kill":
            self.stop_asked = self.hurry = True
        elif order["do"] == "detach":
            self.detached = True
            self.note(detached=True)
        elif order["do"] == "ready":
            self.note(**order["state"], state="ready")

    def note(self, **changes: object) -> None:
        """Change the state file, and say so: the owner waits for it."""
        self.state.update(changes)
        self.save()
        self.tell(event="noted")

    def listen(self, orders: "Orders", timeout_s: float) -> None:
        """Wait for an order, a signal, a child's end or the owner's end."""
        readable = [self._wake] if orders.ended else [self._wake, orders.handle]
        ready, _, _ = select.select(readable, [], [], timeout_s)
        if self._wake in ready:
            os.read(self._wake, 512)
        if orders.handle in ready:
            for line in orders.read():
                self.obey(line)
        self.reap()
        if not self.detached and (orders.ended or os.getppid() != self.owner):
            self.stop_asked = True
            self.grace_s = min(self.grace_s, OWNERLESS_GRACE_S)

    def watch(self, orders: "Orders") -> None:
        """Live until the server ends by itself or is to be stopped; then end whatever is left of it."""
        while self.exit_code is None and not self.stop_asked:
            self.listen(orders, OWNER_CHECK_S)
        by_itself = self.exit_code is not None
        if by_itself:
            self.tell(event="exited", code=self.exit_code)
        left = self.end(orders)
        if by_itself and self.detached:
            self.state.update(state="dead", exit_code=self.exit_code)  # shown once by `serve --list`
            self.save()
        elif not left:
            remove(self.order["state_path"])
        self.tell(event="gone", left=left)

    def end(self, orders: "Orders") -> list[int]:
        """SIGTERM to the group, grace, SIGKILL to the group; returns the pids that survived even that."""
        asked = time.monotonic()
        server_ended = asked if self.exit_code is not None else None
        self.signal_all(signal.SIGTERM)
        while self.members() and not self.hurry and time.monotonic() < asked + self.grace_s:
            self.listen(orders, 0.05)
            if self.exit_code is not None:
                server_ended = server_ended or time.monotonic()
                if time.monotonic() > server_ended + STRAGGLER_GRACE_S:
                    break
        deadline = time.monotonic() + KILL_DEADLINE_S
        while self.members() and time.monotonic() < deadline:
            self.signal_all(signal.SIGKILL)
            self.listen(orders, 0.05)
        return self.members()

    def members(self) -> list[int]:
        """Living processes that came out of the server: its group, and adopted ones that left the group."""
        import psutil

        self.reap()
        pids = set(group_members(self.pid)) if group_exists(self.pid) else set()
        pids |= {child.pid for child in psutil.Process().children(recursive=True) if is_alive(child)}
        return sorted(pids)

    def signal_all(self, signum: int) -> None:
        for pid in self.members():
            send(pid, signum)


class Orders:
    """Lines on standard input, read without buffering ahead."""

    def __init__(self):
        self.handle = 0
        self.ended = False
        self._rest = b""

    def read(self) -> list[bytes]:
        chunk = os.read(self.handle, 65536)
        if not chunk:
            self.ended = True
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines

    def first(self) -> bytes | None:
        """The first line, or None when the owner died before it said anything."""
        while True:
            lines = self.read()
            if lines:
                return lines[0]
            if self.ended:
                return None


def is_alive(process: "object") -> bool:
    """Whether a psutil process lives (a zombie does not)."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def started(pid: int) -> float:
    """Start time of a live process, seconds since the epoch."""
    import psutil

    return psutil.Process(pid).create_time()


def group_exists(pgid: int) -> bool:
    """Whether a process group has members, zombies included."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def group_members(pgid: int) -> list[int]:
    """Living processes of a group."""
    import psutil

    members = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == pgid and is_alive(process):
                members.append(process.pid)
        except (ProcessLookupError, PermissionError):
            continue
    return members


def send(pid: int, signum: int) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def main() -> None:
    """Read the order, start the server, watch it."""
    orders = Orders()
    line = orders.first()
    if line is None:
        return
    guard = Guard(json.loads(line))
    guard.start()
    guard.watch(orders)


if __name__ == "__main__":
    main()
