"""The process that judges answers: limits on itself first, then one line of JSON in, one line out.

Started by `pool.py` as `python -m grail_cli.evaluation.worker LIMITS`. It cannot write files (size limit 0), has a
bounded address space, and bounds the CPU time of every task twice: a timer that raises in Python code, and above it
the kernel's own limit, which ends the process. It dies with its parent.
"""

import json
import math
import os
import resource
import signal
import sys
import time


class OutOfTime(BaseException):
    """The timer of a task rang; no `except Exception` of a library may swallow it."""


def main() -> None:
    """Serve tasks [gold, answer, strictness] until the parent closes the pipe; answers [verdict, rule, seconds]."""
    limits = json.loads(sys.argv[1])
    _limit_self(limits)
    from .judge import judge, load_library

    cpu_s = float(limits.get("cpu_s", 3.0))
    tasks, answers = sys.stdin.buffer, sys.stdout.buffer
    signal.signal(signal.SIGPROF, _ring)
    for line in tasks:
        gold, answer, strictness = json.loads(line)
        started, library_s = time.process_time(), 0.0
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(started + cpu_s) + 2, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, cpu_s, 0.25)
        try:
            decision = judge(gold, answer, strictness)
            if decision is None:  # only the library can tell; importing it is not the answer's fault
                signal.setitimer(signal.ITIMER_PROF, 0)
                resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                before = time.process_time()
                ask = load_library()
                library_s = time.process_time() - before
                now = time.process_time()
                resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(now + cpu_s) + 2, resource.RLIM_INFINITY))
                signal.setitimer(signal.ITIMER_PROF, cpu_s, 0.25)
                decision = ask(gold, answer, strictness)
        except OutOfTime:
            decision = ("timeout", "limit of CPU time")
        except MemoryError:
            decision = ("error", "limit of memory")
        except RecursionError:
            decision = ("error", "limit of nesting")
        # the edge of the process: one answer is lost, and says by what
        except Exception as error:
            decision = ("error", f"internal: {type(error).__name__}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - started - library_s
        answers.write(json.dumps([*decision, round(seconds, 6)]).encode() + b"\n")
        answers.flush()


def _ring(signum, frame) -> None:
    raise OutOfTime


def _limit_self(limits: dict) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    memory = int(limits.get("memory_mb", 1024)) << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(3000)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the parent
    if "parent" in limits and os.getppid() != limits["parent"]:
        sys.exit(0)


if __name__ == "__main__":
    main()
