"""The sweep of `grail train --seeds ... --methods ...`: planned, shown or trained, and what to type next."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..console import Console, counted
from ..errors import GrailError


def sweep(*, seeds: str | None, methods: str | None, jobs: int | None, preset: str | None, config: str | None,
          sets: Sequence[str], out: Path | None, dry_run: bool, check: bool, console: Console) -> None:
    """Train every method with every seed below `out`; with dry_run or check only say what would run.

    seeds, methods: as typed; None is the preset's own one. Raises what `training.sweep` raises.
    """
    from ..presets.load import load_preset
    from ..serving.devices import outer_mask, present_gpus, visible_names
    from ..training import sweep as sweeps

    if out is None:
        raise GrailError("no folder was given for the runs of a sweep.", where="--out", kind="usage",
                         hint="grail train --preset tiny-grpo --seeds 0-3 --methods grpo,grail --out runs/sweep")
    own = load_preset(preset, sets=sets, config_file=config)
    for note in own.notes:
        console.warn(note)
    arms = sweeps.read_arms(methods if methods is not None else own.preset.credit.method)
    numbers = sweeps.read_seeds(seeds) if seeds is not None else [own.preset.train.seed]
    runs = sweeps.plan(arms, numbers, out, preset=preset, config=config, sets=sets)
    places = sweeps.places(own, visible_names(present_gpus(), outer_mask()))[:jobs]
    if jobs is not None and jobs > len(places):
        console.warn(f"--jobs {jobs}: {counted(len(places), 'run')} at a time is what this machine holds.")
    console.say(f"{counted(len(arms), 'method')} x {counted(len(numbers), 'seed')} = {counted(len(runs), 'run')} "
                f"in {out}, {len(places)} at a time, {sum(run.finished for run in runs)} finished")
    if check or dry_run:
        sweeps.check_all(runs)
        document = {"runs": [{"run": str(run.folder), "command": ["grail", *run.words()], "finished": run.finished}
                             for run in runs], "jobs": len(places)}
        return console.result(document, "\n".join(shlex.join(["grail", *run.words()]) for run in runs))
    document = sweeps.train_all(runs, out, places, console)
    console.result(document, f"{counted(len(runs), 'run')} done in {out}")
    suites = ",".join(own.preset.eval.bench)
    results = shlex.quote(str(out.parent / f"{out.name}-results"))
    console.say(f"next: grail eval --model {shlex.quote(str(out))}/*/checkpoint-{own.preset.train.max_steps} "
                f"--bench {suites} --out {results}")
    console.say(f"      grail report {results} --paired --baseline {arms[0].folder}")
