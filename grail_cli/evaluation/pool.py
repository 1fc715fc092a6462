"""Worker processes that can be killed: one task at a time, limited in CPU time and memory by the kernel.

A task that takes too long ends by a timer inside the worker (Python code) or by the kernel's CPU limit (a long
operation in C); either way only that task is lost, and the worker is replaced. CPU time decides, never the clock on
the wall: the load of the machine changes no verdict. A task never runs twice.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import RunFailed

SILENCE_S = 600.0  # a worker that neither answers nor dies for so long is stopped or swapped out: kill it


class Worker:
    """One process of a worker module; `task` is the index it works on, or None."""

    def __init__(self, limits: dict, module: str):
        package_root = Path(__file__).resolve().parents[2]
        paths = [str(package_root), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps({**limits, "parent": os.getpid()})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.task: int | None = None
        self.since = 0.0
        self.buffer = b""

    def send(self, index: int, task: list) -> None:
        """Start on a task. Raises BrokenPipeError when the worker has died before."""
        self.task, self.since = index, time.monotonic()
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> tuple[bool, list | None]:
        """(alive, answer): what has arrived since; the answer is None while it is not whole."""
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return False, None
        self.buffer += data
        if not self.buffer.endswith(b"\n"):
            return True, None
        answer, self.buffer = json.loads(self.buffer), b""
        return True, answer

    def end(self) -> int:
        """Kill what is left of the process; returns its exit code."""
        if self.process.poll() is None and self.task is not None:
            try:  # its output has closed: it is about to be gone, and its own exit code tells why
                self.process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                pass
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        return code


class Pool:
    """`run(tasks)` gives an answer a task, in order; workers live on between calls and are safe to use from
    threads.

    lost(code) makes the answer of a task whose worker died: `code` is the exit code, negative for a signal.
    """

    def __init__(
        self,
        workers: int,
        limits: dict,
        lost: Callable[[int], list],
        module: str = "grail_cli.evaluation.worker",
    ):
        self.size, self.limits, self.lost, self.module = workers, limits, lost, module
        self._workers: list[Worker] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def run(self, tasks: list[list], done: Callable[[int], None] | None = None) -> list[list]:
        """The answers of `tasks`, in order. done(n) is called when n more are finished."""
        with self._lock:
            if self._owner != os.getpid():  # we are a fork: the pipes belong to the parent
                self._workers, self._owner = [], os.getpid()
            try:
                return self._run(tasks, done or (lambda count: None))
            except BaseException:  # Ctrl-C: answers under way must not be taken for those of the next call
                self._end_workers()
                raise

    def _run(self, tasks: list[list], done: Callable[[int], None]) -> list[list]:
        answers: list[list | None] = [None] * len(tasks)
        waiting = iter(range(len(tasks)))
        while len(self._workers) < min(self.size, len(tasks)):
            self._workers.append(Worker(self.limits, self.module))
        with selectors.DefaultSelector() as selector:
            for worker in list(self._workers):
                self._next(worker, waiting, tasks, selector)
            while selector.get_map():
                for key, _ in selector.select(timeout=5.0):
                    worker = key.data
                    alive, answer = worker.receive()
                    if answer is not None:
                        answers[worker.task], worker.task = answer, None
                        selector.unregister(worker.process.stdout)
                    elif not alive:
                        selector.unregister(worker.process.stdout)
                        answers[worker.task] = self.lost(worker.end())
                        worker = self._replace(worker)
                    else:
                        continue
                    done(1)
                    self._next(worker, waiting, tasks, selector)
                for key in list(selector.get_map().values()):
                    if time.monotonic() - key.data.since > SILENCE_S:
                        key.data.process.kill()
        return answers

    def _next(self, worker: Worker, waiting: Iterable[int], tasks: list[list], selector) -> None:
        index = next(waiting, None)
        if index is None:
            return
        for _ in range(3):
            try:
                worker.send(index, tasks[index])
            except BrokenPipeError:  # died between two tasks: this one has not begun
                worker.task = None
                worker.end()
                worker = self._replace(worker)
                continue
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            return
        raise RunFailed(
            "the grading worker does not start.",
            hint=f"try: {sys.executable} -m grail_cli.evaluation.worker '{{}}'",
        )

    def _replace(self, worker: Worker) -> Worker:
        fresh = Worker(self.limits, self.module)
        self._workers[self._workers.index(worker)] = fresh
        return fresh

    def close(self) -> None:
        """End the workers."""
        with self._lock:
            if self._owner == os.getpid():
                self._end_workers()
            self._workers = []

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.end()
        self._workers = []


def killed_by_cpu_limit(code: int) -> bool:
    """Whether an exit code of a worker means that the kernel's limit of CPU time ended it."""
    return code in (-signal.SIGXCPU, 128 + signal.SIGXCPU)
