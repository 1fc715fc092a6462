"""One server process under guard: start it, see whether it lives, hand it over, stop it for sure."""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import RunFailed
from .guard import KILL_DEADLINE_S

GUARD = Path(__file__).with_name("guard.py")
START_TIMEOUT_S = 30.0
STOP_SLACK_S = 5.0  # on top of grace and kill deadline, for a loaded machine


class GuardedProcess:
    """A server and its guard, which ends the server's whole group when this process dies, however it dies."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, state_path: Path,
                 state: dict,
                 grace_s: float):
        self.grace_s = grace_s
        self.exit_code: int | None = None
        self.left: list[int] = []
        self.pid: int | None = None
        self._events = b""
        self._noted = False
        self._reading = threading.Lock()
        # -P: the guard is a script, and its folder must not shadow modules of the standard library
        self._guard = subprocess.Popen([sys.executable, "-P", str(GUARD)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, env=dict(env), start_new_session=True,
                                       bufsize=0)
        os.set_blocking(self._guard.stdout.fileno(), False)
        try:
            self._order({"argv": list(argv), "log": str(log), "state_path": str(state_path), "state": state,
                         "grace_s": grace_s})
            self._wait(lambda: self.pid is not None, START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        if self.pid is None:
            self.stop()
            raise RunFailed("the server's guard did not start.", where=str(GUARD), kind="guard",
                            hint=f"run `{sys.executable} -c 'import psutil'` to see whether psutil works.")

    @property
    def guard_pid(self) -> int:
        return self._guard.pid

    def poll(self) -> int | None:
        """The server's exit code once it has ended by itself, else None."""
        self._read(0)
        return self.exit_code

    def ready(self, state: dict) -> None:
        """Note in the state file that the server is ready, with what is known about it by now."""
        self._order({"do": "ready", "state": state})
        self._wait_for_note()

    def detach(self) -> None:
        """Let the server live on after this process; its guard stays with it."""
        self._order({"do": "detach"})
        self._wait_for_note()

    def begin_stop(self) -> None:
        """Ask for the end without waiting for it: several servers end at the same time."""
        self._order({"do": "stop"})

    def stop(self) -> list[int]:
        """End the whole group: SIGTERM, grace, SIGKILL; returns the pids that survived (none, on a healthy
        machine).

        A Ctrl-C while waiting kills the group at once, and is raised again when it is gone.
        """
        interrupt: BaseException | None = None
        self.begin_stop()
        deadline = time.monotonic() + self.grace_s + 2 * KILL_DEADLINE_S + STOP_SLACK_S
        while self._guard.poll() is None and time.monotonic() < deadline:
            try:
                self._read(0.05)
            except KeyboardInterrupt as error:
                interrupt = error
                self._order({"do": "kill"})
        if self._guard.poll() is None:
            self._guard.kill()  # a guard that hangs takes the server with it: its death is SIGTERM there
            self._guard.wait()
        self._read(0)
        for pipe in (self._guard.stdin, self._guard.stdout):
            if not pipe.closed:
                pipe.close()
        if interrupt is not None:
            raise interrupt
        return self.left

    def _order(self, order: dict) -> None:
        try:
            self._guard.stdin.write((json.dumps(order) + "\n").encode())
        except (BrokenPipeError, ValueError):
            pass  # the guard has ended; `poll` tells how

    def _wait_for_note(self) -> None:
        self._noted = False
        self._wait(lambda: self._noted, START_TIMEOUT_S)

    def _wait(self, done, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done() and self._guard.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        self._read(0)

    def _read(self, timeout_s: float) -> None:
        with self._reading:  # a client's thread asks for life signs while the main thread stops
            self._read_events(timeout_s)

    def _read_events(self, timeout_s: float) -> None:
        if self._guard.stdout.closed:
            return
        select.select([self._guard.stdout], [], [], timeout_s)
        chunk = self._guard.stdout.read()
        if chunk == b"" and timeout_s and self._guard.poll() is None:
            time.sleep(timeout_s)  # end-of-file comes a moment before the guard's end
        *lines, self._events = (self._events + (chunk or b"")).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["event"] == "started":
                self.pid = event["pid"]
            elif event["event"] == "noted":
                self._noted = True
            elif event["event"] == "exited":
                self.exit_code = event["code"]
            elif event["event"] == "gone":
                self.left = event["left"]
