"""`grail train`: a run from preset to checkpoints; --check and --dry-run look at it without loading anything."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import GrailError
from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge

EXAMPLES = [
    "grail train --preset tiny-grail --out runs/tiny",
    "grail train --preset qwen3-grail --set credit.std=0.7 --gpus 0,1,2,3 --out runs/qwen3-grail",
    "grail train --preset qwen3-grail --dry-run",
    "grail train --resume runs/tiny",
]


@edge
def train(
    preset: PresetOpt = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder; it must not exist yet.")] = None,
    set: SetOpt = None,
    config: Annotated[str | None, typer.Option(
        "--config", metavar="FILE", help="YAML file over the preset; also a flat file of GRAIL's reference.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="Same as --set credit.method=...")] = None,
    gpus: Annotated[str | None, typer.Option("--gpus", help="GPUs to use, such as 0,1; one process each.")] = None,
    resume: Annotated[Path | None, typer.Option("--resume", metavar="RUN", help="Go on with this run folder.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run and what is missing here.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Look for everything that can be wrong, then stop.")] = False,
    sbatch: Annotated[bool, typer.Option("--sbatch", help="Print a SLURM script that runs this.")] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Train with GRPO, GRAIL or OAR-G as a preset says."""
    from ..presets.load import load_preset
    from ..training import run as runs

    console = Console(json=json, quiet=quiet)
    if resume is not None:
        given = [name for name, value in (("--preset", preset), ("--out", out), ("--config", config), ("--method", method))
                 if value is not None]
        if given:
            raise GrailError(f"--resume takes preset and folder from the run; {', '.join(given)} cannot be given with it.",
                             where="--resume", hint="change what does not touch the result with --set, such as train.max_steps.")
        resolved, folder = runs.resolve_run(resume, sets=set or []), resume
    else:
        if preset is None and config is None:
            raise GrailError("no preset was given.", where="--preset", kind="usage",
                             hint="grail presets list shows them; on a laptop: grail train --preset tiny-grail --out runs/tiny")
        flags = {"credit.method": method, "launch.gpus": gpus}
        if gpus:
            flags["launch.processes"] = len([name for name in gpus.split(",") if name.strip()])
        resolved = load_preset(preset, sets=set or [], flags=flags, config_file=config)
        folder = out or Path("runs") / resolved.name
    for note in resolved.notes:
        console.warn(note)
    if dry_run or check or sbatch:
        from ..training import preview

        if sbatch:
            return console.result({"script": preview.sbatch(resolved, folder)}, preview.sbatch(resolved, folder))
        return preview.show(resolved, folder, console, full=dry_run)
    result = runs.train(resolved, folder, resume=resume is not None, console=console)
    console.result(result.as_json(), _words(result))
    if result.checkpoint:
        console.say(f"next: grail eval --model {result.checkpoint} --bench {','.join(resolved.preset.eval.bench)}")


def _words(result) -> str:
    reward = result.metrics.get("reward")
    return (f"step {result.step} done in {result.folder}" + (f", reward {reward:.3f}" if reward is not None else "")
            + (f"; newest checkpoint {result.checkpoint}" if result.checkpoint else ""))
