"""What a run would be, without running it: `--dry-run`, `--check` and `--sbatch`.

Nothing is loaded. A fault ends with exit code 2 after everything was shown; what only this machine lacks does
not.
"""

import os
import shlex
from pathlib import Path

from ..console import Console
from ..errors import raise_all
from ..presets.load import Resolved
from .batches import batch_plan
from .checkpoint import retention_sentence
from .checks import Report, check_run
from .config import processes
from .launch import command
from .layout import fit_to_environment


def show(resolved: Resolved, folder: Path, console: Console, *, full: bool, resume: bool = False) -> None:
    """Print the resolved preset (full=True) or the checks alone. Raises Faults when something must change."""
    from .record import RunRecord

    resolved = fit_to_environment(resolved, os.environ)
    report = check_run(resolved, folder, deep=not full)
    report.look(lambda: RunRecord(folder).refuse_if_taken(resume))
    stop = report.faults if full else report.faults + report.missing
    if not (console.json and stop):  # with --json a fault is the one document
        document = describe(resolved, folder, report)
        console.result(document, _text(resolved, document, full))
    for warning in report.warnings if not console.json else ():
        console.warn(warning)
    raise_all(stop)


def describe(resolved: Resolved, folder: Path, report: Report) -> dict:
    """The run as one JSON document."""
    preset, train = resolved.preset, resolved.preset.train
    plan = batch_plan(train, processes(preset), report.problems)
    return {
        "preset": preset.model_dump(mode="json"),
        "origins": resolved.origins,
        "run": str(folder),
        "plan": plan.as_dict(),
        "plan_text": plan.sentence(),
        "retention": retention_sentence(
            train.keep_last, train.keep_every, train.keep_best, train.save_steps, train.max_steps
        ),
        "launch": shlex.join(launch_command(resolved, folder)),
        "missing": [fault.as_json() for fault in report.missing],
        "faults": len(report.faults),
        "warnings": list(report.warnings),
        "facts": report.facts,
    }


def launch_command(resolved: Resolved, folder: Path) -> list[str]:
    """What starts the processes: this program itself for one, accelerate for several."""
    preset = resolved.preset
    if processes(preset) == 1 and not preset.launch.zero:
        return ["grail", "train", "--preset", str(folder / "preset.yaml"), "--out", str(folder)]
    return command(folder, folder / "logs" / "attempt-1")


def _text(resolved: Resolved, document: dict, full: bool) -> str:
    lines = [resolved.to_yaml(with_origins=True)] if full else []
    lines += [document["plan_text"], document["retention"], f"run folder: {document['run']}"]
    if full:
        lines.append(f"launch: {document['launch']}")
    if "example_prompt" in document["facts"]:
        facts = document["facts"]
        lines.append(f"example prompt ({facts['example_prompt_tokens']} tokens, context {facts['context']}): "
                     f"{facts['example_prompt']!r}")
    for fault in document["missing"]:
        lines.append(f"missing here: {fault['where']}: {fault['message']} Next: {fault['hint']}")
    if document["faults"]:
        lines.append(f"{document['faults']} faults must be mended first; they are on standard error.")
    elif not document["missing"]:
        lines.append("nothing is missing here.")
    return "\n".join(lines)


SBATCH = """\
#!/bin/bash
#SBATCH --job-name=grail-{name}
#SBATCH --nodes={machines}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --cpus-per-task={cpus}
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={run}.slurm-%j.log
#SBATCH --signal=B:TERM@600
# SLURM sends TERM ten minutes before the limit: grail finishes its step, saves, and the job is queued again.
# Tokens (HF_TOKEN, WANDB_API_KEY) come from the environment that sbatch is called in.
set -u
run={run}
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 grail train {source} --out "$run" --resume{settings} \\
  --set launch.machines={machines} --set "launch.main_address=$MASTER_ADDR" --set launch.main_port={port} &
job=$!
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM  # to the processes of the step, not to this script
wait $job; code=$?
while kill -0 $job 2>/dev/null; do wait $job; code=$?; done
if [ $code -eq 143 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
"""


def sbatch(resolved: Resolved, folder: Path, *, preset_as_given: str | None = None, config: str | None = None) -> str:
    """A SLURM script for this run: one task a machine, saved and requeued before the time limit.

    preset_as_given, config: what --preset and --config said; without both, the run goes on with its own preset.yaml.
    """
    if preset_as_given is None and config is None:
        preset_as_given = str(folder / "preset.yaml")
    source = [part for flag, value in (("--preset", preset_as_given), ("--config", config)) if value
              for part in (flag, shlex.quote(value))]
    preset = resolved.preset
    gpus = preset.launch.processes
    if preset.train.sampler == "vllm_server" and preset.train.vllm_server_gpus:
        gpus += len(preset.train.vllm_server_gpus.split(","))
    settings = "".join(
        f" --set {shlex.quote(f'{key}={_value(preset, key)}')}"
        for key, origin in resolved.origins.items()
        if origin.startswith("--") and not key.startswith("launch.m")
    )
    return SBATCH.format(
        name=shlex.quote(folder.name),
        machines=preset.launch.machines,
        gpus=gpus,
        cpus=max(4, 8 * preset.launch.processes),
        run=shlex.quote(str(folder)),
        source=" ".join(source),
        settings=settings,
        port=preset.launch.main_port or 29500,
    )


def _value(preset, key: str) -> str:
    from ..presets.values import dump_value

    section, _, leaf = key.partition(".")
    return dump_value(getattr(getattr(preset, section), leaf))
