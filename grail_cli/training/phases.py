"""Where the time of a step goes, and a deadline on every phase that ends a hang with the phase's name.

A phase inside another stops the outer one's clock, so that the times add up. The deadline is watched from a
thread: a hang in a collective operation or in foreign code never returns to Python's main thread.
"""

import faulthandler
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("load", "rollout", "sync", "reward", "credit", "update", "save", "end")


class Phases:
    """The running phase, seconds spent by phase, and a watchdog.

    deadlines: seconds a phase may take in one go, by name; a missing name has none. on_expiry(phase, seconds)
    is called from the watchdog's thread before the process ends with exit code 1.
    """

    def __init__(self, deadlines: dict[str, float], *, logs: Path | None = None,
                 on_expiry: Callable[[str, float], None] | None = None):
        self.deadlines, self.logs, self.on_expiry = deadlines, logs, on_expiry
        self._stack: list[list] = []  # [name, started, seconds of inner phases]
        self._spent: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        if deadlines:
            threading.Thread(target=self._watch, name="deadlines", daemon=True).start()

    @property
    def current(self) -> str:
        """Name of the innermost running phase, or `start`."""
        stack = self._stack
        return stack[-1][0] if stack else "start"

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Run a block as a phase."""
        self.begin(name)
        try:
            yield
        finally:
            self.finish()

    def begin(self, name: str) -> None:
        with self._lock:
            self._stack.append([name, time.monotonic(), 0.0])

    def finish(self) -> None:
        with self._lock:
            name, started, inner = self._stack.pop()
            took = time.monotonic() - started
            self._spent[name] += took - inner
            if self._stack:
                self._stack[-1][2] += took

    def take(self) -> dict[str, float]:
        """Seconds by phase since the last call."""
        with self._lock:
            spent, self._spent = dict(self._spent), defaultdict(float)
        return spent

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            with self._lock:
                running = [
                    (name, time.monotonic() - started - inner) for name, started, inner in self._stack[-1:]
                ]
            for name, took in running:
                if name in self.deadlines and took > self.deadlines[name]:
                    self._expire(name, took)

    def _expire(self, name: str, took: float) -> None:
        line = deadline_words(name, took)
        print(f"error: {line}", file=sys.stderr, flush=True)
        if self.logs:
            with open(self.logs / f"deadline-{name}-{os.getpid()}.txt", "w", encoding="utf-8") as file:
                file.write(line + "\n\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)
        if self.on_expiry:
            self.on_expiry(name, took)
        os._exit(1)


def deadline_words(name: str, seconds: float) -> str:
    """The fault of a phase that did not end in time."""
    return f"phase '{name}' has run for {seconds:.0f}s, past train.deadlines; the run stops here."
