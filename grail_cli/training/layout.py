"""Who starts the processes of a run: this program, torchrun or accelerate around it, or SLURM with one task a
machine.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import replace

from ..errors import GrailError, RunFailed
from ..files import read_json
from ..presets.load import Resolved
from .record import RunRecord


def fit_to_environment(resolved: Resolved, env: Mapping[str, str]) -> Resolved:
    """The preset with `launch` as the environment says; what was set by hand must agree with it.

    torchrun and accelerate set RANK, WORLD_SIZE and LOCAL_WORLD_SIZE: this process is one rank. SLURM with
    one task a node (SLURM_NNODES > 1) gives the machine's rank. Raises GrailError when launch.machines
    contradicts SLURM.
    """
    launch = resolved.preset.launch
    if "RANK" in env and "WORLD_SIZE" in env:
        if resolved.preset.train.sampler == "vllm_server":
            raise GrailError(
                "vllm_server is started by grail's own launcher, and another one has started this process.",
                where="train.sampler",
                hint="call `grail train` by itself with launch.processes, or choose vllm_colocate.",
            )
        world = int(env["WORLD_SIZE"])
        local = int(env.get("LOCAL_WORLD_SIZE", world))
        return _with(resolved, "torchrun environment", processes=local, machines=world // local)
    nodes = int(env.get("SLURM_NNODES", "1"))
    if nodes > 1 and env.get("SLURM_NTASKS") == str(nodes) and "SLURM_NODEID" in env:
        if launch.machines not in (1, nodes):
            raise GrailError(
                f"{launch.machines}, and SLURM has given {nodes} nodes.",
                where="launch.machines",
                hint="leave it out, or ask SLURM for as many.",
            )
        changes = {"machines": nodes, "rank": int(env["SLURM_NODEID"])}
        if launch.main_address == "127.0.0.1":
            if "MASTER_ADDR" not in env:
                raise GrailError(
                    "127.0.0.1 is not where the other machines find rank 0.",
                    where="launch.main_address",
                    hint="set MASTER_ADDR as the script of --sbatch does.",
                )
            changes["main_address"] = env["MASTER_ADDR"]
        if launch.main_port is None:
            changes["main_port"] = 29500
        return _with(resolved, "SLURM", **changes)
    return resolved


def _with(resolved: Resolved, origin: str, **changes) -> Resolved:
    launch = resolved.preset.launch.model_copy(update=changes)
    origins = resolved.origins | {f"launch.{name}": origin for name in changes}
    return replace(resolved, preset=resolved.preset.model_copy(update={"launch": launch}), origins=origins)


def is_one_rank() -> bool:
    """Whether somebody else's launcher started this process as one rank of several."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def follows(resolved: Resolved) -> bool:
    """Whether another process or machine keeps the run folder and this one only computes."""
    return int(os.environ["RANK"]) != 0 if is_one_rank() else resolved.preset.launch.rank > 0


def wait_for_main(record: RunRecord, seconds: float) -> None:
    """Wait until the main process has opened the run folder. Raises RunFailed when it does not in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if record.manifest_path.exists() and read_json(record.manifest_path)["outcome"] == "running":
            return
        time.sleep(0.2)
    raise RunFailed(
        f"rank 0 has not opened the run folder within {seconds:g}s.",
        where=str(record.folder),
        kind="no_main",
        hint="all machines must see one run folder; look at the output of rank 0.",
    )
