"""`grail train`: a run from preset to checkpoints; --check and --dry-run look at it without loading anything."""

import shlex
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
    "grail train --preset tiny-grpo --seeds 0-7 --methods grpo,grail,grail-plus,oar_g,shuffled --out runs/sweep",
]


@edge
def train(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Run folder, the same as --out.")
    ] = None,
    preset: PresetOpt = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; without --resume it must not exist yet.")
    ] = None,
    set: SetOpt = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="YAML file over the preset; also a flat file of GRAIL's reference.",
        ),
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="Same as --set credit.method=...")] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="LIST", help="Sweep: a run a seed, such as 0-7 or 0,3; goes on by itself."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", metavar="LIST",
                     help="Sweep: methods, grail-plus, or METHOD:key=value, with commas; each with every seed."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Runs of a sweep at a time; by default as many as fit.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option("--gpus", help="GPUs to use, such as 0,1; one process each.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run folder; with --preset, begin when there is none."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run and what is missing here.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Look for everything that can be wrong, then stop.")
    ] = False,
    sbatch: Annotated[bool, typer.Option("--sbatch", help="Print a SLURM script that runs this.")] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Train with GRPO, GRAIL or OAR-G as a preset says."""
    from ..presets.load import load_preset
    from ..training import run as runs

    console = Console(json=json, quiet=quiet)
    if run is not None and out is not None and run != out:
        raise GrailError(f"two run folders were given: {run} and {out}.", where="--out", hint="give one.")
    folder = out or run
    if seeds is not None or methods is not None:
        from .sweep import sweep

        stray = {"--method": method, "--resume": resume, "--sbatch": sbatch, "--gpus": gpus}
        if given := [flag for flag, value in stray.items() if value]:
            raise GrailError(f"{', '.join(given)}: not for a sweep.", where="--seeds/--methods", kind="usage",
                             hint="a sweep goes on by itself and takes the GPUs that CUDA_VISIBLE_DEVICES shows.")
        return sweep(seeds=seeds, methods=methods, jobs=jobs, preset=preset, config=config, sets=set or [], out=folder,
                     dry_run=dry_run, check=check, console=console)
    if jobs is not None:
        raise GrailError("has a meaning in a sweep only.", where="--jobs", kind="usage",
                         hint="add --seeds 0-7 or --methods grpo,grail.")
    flags = {"credit.method": method, "launch.gpus": gpus,
             "launch.processes": len([name for name in gpus.split(",") if name.strip()]) if gpus else None}
    if preset is None and config is None:
        if not resume:
            raise GrailError(
                "no preset was given.",
                where="--preset",
                kind="usage",
                hint="grail presets list; on a laptop: grail train --preset tiny-grail --out runs/tiny",
            )
        if folder is None:
            raise GrailError(
                "no run folder was given.", where="--resume", kind="usage", hint="grail train --resume RUN"
            )
        resolved = runs.resolve_run(folder, sets=set or [], flags=flags)
    else:
        resolved = load_preset(preset, sets=set or [], flags=flags, config_file=config)
        folder = folder or Path("runs") / resolved.name
        resume = resume and (folder / "manifest.json").exists()  # a run that was killed in its checks begins anew
    for note in resolved.notes:
        console.warn(note)
    if dry_run or check or sbatch:
        from ..training import preview

        if sbatch:
            script = preview.sbatch(resolved, folder, preset_as_given=preset, config=config)
            return console.result({"script": script}, script)
        return preview.show(resolved, folder, console, full=dry_run, resume=resume)
    if resume and (changed := runs.changes(folder, resolved)):
        console.say(f"changed for this resume: {', '.join(changed)}")
    result = runs.train(resolved, folder, resume=resume, console=console)
    console.result(result.as_json(), _words(result))
    if result.checkpoint:
        console.say(
            f"next: grail eval --model {shlex.quote(str(result.checkpoint))} --bench {','.join(resolved.preset.eval.bench)}"
        )


def _words(result) -> str:
    reward = result.metrics.get("reward")
    return (
        f"step {result.step} done in {result.folder}"
        + (f", reward {reward:.3f}" if reward is not None else "")
        + (f"; newest checkpoint {result.checkpoint}" if result.checkpoint else "")
    )
