"""The launcher's child: accelerate's own launcher, made to die with whoever started it.

`python -m grail_cli.training.agent --config_file F -m grail_cli.training.rank RUN LOGS` is `accelerate
launch` of the same arguments. A killed parent must not leave ranks that hold GPUs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent ends (Linux); parent: its pid, to see that it still
    lives.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)  # it ended before the request was in


def main() -> None:
    """Run accelerate's launcher under these conditions.

    It is deaf to the signals that ask for a stop: SLURM sends them to every process of a job step, and
    torch's launcher would kill the ranks in the middle of the step that they want to finish.
    """
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    from accelerate.commands import launch

    launch.main()


if __name__ == "__main__":
    main()
