"""Which GPUs a server gets: an outer mask honoured, names untouched, memory looked at before."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import GrailError

NVIDIA_SMI_TIMEOUT_S = 20.0
MIB = 1024 * 1024


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi sees it; memory in MiB."""

    index: str
    uuid: str
    total_mib: int
    free_mib: int


def split_names(names: str) -> list[str]:
    """`0, 1` -> ["0", "1"]; an empty text and -1 mean no GPU."""
    items = [item.strip() for item in names.split(",")]
    if items in ([""], ["-1"]):
        return []
    return items


def nvidia_smi(*query: str) -> list[list[str]] | None:
    """Rows of an nvidia-smi query, or None when there is no (working) nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", *query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SMI_TIMEOUT_S)
    except (subprocess.TimeoutExpired, OSError):
        return None
    if done.returncode != 0:
        return None
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def present_gpus() -> list[Gpu]:
    """The GPUs of this machine, whatever a mask hides."""
    rows = nvidia_smi("--query-gpu=index,uuid,memory.total,memory.free") or []
    return [Gpu(index, uuid, int(total), int(free)) for index, uuid, total, free in rows
            if total.isdigit() and free.isdigit()]


def visible_names(present: Sequence[Gpu], outer: str | None) -> list[str]:
    """Names of the GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, else all by index."""
    return split_names(outer) if outer is not None else [gpu.index for gpu in present]


def select(gpus: str | None, count: int, visible: Sequence[str], *, offset: int = 0) -> list[str]:
    """CUDA names for one server: `gpus` (positions in `visible`, or UUID/MIG names), else the first `count`.

    offset: GPUs already given to servers of the same command. Raises GrailError when there are not enough.
    """
    if gpus is None:
        chosen = list(visible[offset:offset + count])
        if len(chosen) < count:
            raise GrailError(
                f"tp x dp = {count} GPUs a server are asked for, {max(len(visible) - offset, 0)} of "
                f"{len(visible)} are left.",
                where="serve.tp", kind="gpus", hint="lower --tp or --dp, or serve fewer models at once.")
        return chosen
    names = split_names(gpus)
    chosen = []
    for name in names[offset:offset + count]:
        if not name.isdigit():
            chosen.append(name)  # a UUID or MIG name says by itself which GPU it is
        elif int(name) < len(visible):
            chosen.append(visible[int(name)])
        else:
            known = ", ".join(f"{i} ({gpu})" if str(i) != gpu else gpu for i, gpu in enumerate(visible))
            raise GrailError(f"there is no GPU {name}; visible: {known or 'none'}.", where="serve.gpus", kind="gpus",
                             hint="numbers count within CUDA_VISIBLE_DEVICES.")
    if len(chosen) < count:
        raise GrailError(f"tp x dp = {count} GPUs a server are asked for, --gpus {gpus!r} leaves "
                         f"{len(chosen)}.",
                         where="serve.gpus", kind="gpus",
                         hint=f"name {offset + count} GPUs, or lower --tp or --dp.")
    return chosen


def outer_mask() -> str | None:
    """CUDA_VISIBLE_DEVICES of this process, or None when all GPUs may be used."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def find(name: str, present: Sequence[Gpu]) -> Gpu | None:
    """The GPU behind a CUDA name; None for MIG slices and names that nvidia-smi does not list."""
    for gpu in present:
        if name in (gpu.index, gpu.uuid) or (name.startswith("GPU-") and gpu.uuid.startswith(name)):
            return gpu
    return None


def check_memory(chosen: Sequence[str], present: Sequence[Gpu], share: float) -> list[GrailError]:
    """Faults for GPUs with less free memory than `share` of all, with the largest share that would fit."""
    faults = []
    for name in chosen:
        gpu = find(name, present)
        if gpu is None or gpu.free_mib >= share * gpu.total_mib:
            continue
        fits = max(int((gpu.free_mib - 1024) / gpu.total_mib * 100), 0) / 100  # 1 GiB for the CUDA context
        advice = f"--set serve.gpu_memory_utilization={fits}" if fits >= 0.05 else "choose another GPU"
        faults.append(GrailError(
            f"GPU {name} has {gpu.free_mib / 1024:.1f} of {gpu.total_mib / 1024:.1f} GiB free; "
            f"{share:g} of all ({share * gpu.total_mib / 1024:.1f} GiB) is asked for" + holders_text(gpu) + ".",
            where="serve.gpu_memory_utilization", kind="gpu_memory", hint=f"{advice}."))
    return faults


def holders_text(gpu: Gpu) -> str:
    """`; held by pid 12 (VLLM::EngineCore, 30.1 GiB)` for the processes on a GPU."""
    rows = nvidia_smi("--query-compute-apps=gpu_uuid,pid,used_memory") or []
    holders = [f"pid {pid} ({title(int(pid))}, {int(used) / 1024:.1f} GiB)" for uuid, pid, used in rows
               if uuid == gpu.uuid and pid.isdigit() and used.isdigit()]
    return "; held by " + ", ".join(holders) if holders else ""


def title(pid: int) -> str:
    """What a process calls itself: its command line, which vLLM sets to VLLM::EngineCore and the like."""
    import psutil

    try:
        process = psutil.Process(pid)
        return (" ".join(process.cmdline()) or process.name())[:60]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return "gone"


def used_mib(chosen: Sequence[str]) -> int:
    """Memory in use on the chosen GPUs, MiB; 0 where nvidia-smi does not know them."""
    present = present_gpus()
    found = [find(name, present) for name in chosen]
    return sum(gpu.total_mib - gpu.free_mib for gpu in found if gpu is not None)
