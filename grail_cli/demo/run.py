"""`run_demo(out)`: GRPO and GRAIL from the same start on the same prompts, graded, compared and looked into.

Every stage is one call of the library, and an ordinary command would do the same; what is finished is not
done again.
"""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..console import Console, duration
from ..errors import GrailError
from ..files import FolderLock
from ..presets.load import load_preset
from ..training.side_by_side import Run, follow, refuse_others, training

METHODS = {"grpo": "tiny-grpo", "grail": "tiny-grail"}
START = "tiny"
POSITIONS = "reference"  # the analysis' three-panel figure of weight over position


@dataclass(frozen=True)
class DemoResult:
    """What a demo came to: table, numbers, the files to look at first, and what to try next."""

    table: str
    document: dict
    main_files: list[Path]
    following: list[str]


def run_demo(out: Path, *, sets: Sequence[str] = (), console: Console) -> DemoResult:
    """Train, evaluate, report and analyse below `out`; the same call goes on with a demo that was stopped.

    sets: `section.key=value` overrides of both presets. Raises GrailError for a folder with a demo of other
    settings, RunFailed when a run fails.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # beside two runs on two cores, more threads only wait for one another
    try:
        return _run(out, sets, console)
    except KeyboardInterrupt as stop:
        if not (stop.args and isinstance(stop.args[0], str)):
            stop.args = ("what was done is kept; the same command goes on.",)
        raise
    finally:
        torch.set_num_threads(threads)


def _run(out: Path, sets: Sequence[str], console: Console) -> DemoResult:
    from ..analysis.plan import checkpoints_of
    from ..reporting.build import build
    from ..reporting.text import terminal
    from ..reporting.write import plan, write
    from .curves import draw_curves

    started = time.monotonic()
    runs = _plan(out / "runs", sets)
    results = out / "results"
    with FolderLock(out):
        with training(runs, out / "logs", console) as children:
            _evaluate([START], runs[0], results, console)  # meanwhile
            follow(children)
        saved = [str(folder) for run in runs for _, folder in checkpoints_of(run.folder)]
        _evaluate(saved, runs[0], results, console)
        console.say("report and figures")
        report = build([results], START, console)
        files = plan(out / "report.xlsx", "xlsx,html")
        write(report, files)
        suite = report.suites[0]
        rewards = {run.name: run.rewards() for run in runs}
        files += draw_curves(rewards, report, suite, START, out / "figures")
        files += _analyse(runs[-1], results, out / "analysis", console)
        ends = [f"{run.name}@step-{run.steps}" for run in runs]
        final = build([results / label for label in (START, *ends)], START, console)
        between = build([results / label for label in ends], ends[0], console).differences[ends[1], suite]
    seconds = time.monotonic() - started
    console.say(f"all of it took {duration(seconds)}")
    methods = {run.name: _numbers(final, label, suite, run) for run, label in zip(runs, ends, strict=True)}
    document = {"seconds": round(seconds, 1), "suite": suite, "start": final.score(START, suite).acc.value,
                "methods": methods, "between": _between(between),
                "files": [str(file.resolve()) for file in files], "next": _next(out, runs[-1])}
    main = [file for file in files if file.suffix in (".xlsx", ".html") or file.stem in ("curves", POSITIONS)]
    table = f"{terminal(final).rstrip()}\n\n{_versus(ends, between)}"
    return DemoResult(table, document, [file for file in main if file.suffix != ".pdf"],
                      document["next"])


def _plan(folder: Path, sets: Sequence[str]) -> list[Run]:
    """A run a method; nothing is written. Raises GrailError for a demo of other settings, or for an override that
    would take the methods' difference away.
    """
    given = [word for text in sets for word in ("--set", text)]
    runs = [Run(method, load_preset(preset, sets=sets), folder / method, ("--preset", preset, *given))
            for method, preset in METHODS.items()]
    if len({run.resolved.preset.credit.method for run in runs}) < len(runs):
        raise GrailError("the demo compares methods, so the method cannot be set.",
                         where="--set credit.method",
                         hint="grail train --preset tiny-grpo --method NAME trains one of them.")
    refuse_others(runs)
    return runs


def _evaluate(models: list[str], run: Run, out: Path, console: Console) -> None:
    """Sample and grade models on the suites of the preset."""
    from ..evaluation.open import opener
    from ..evaluation.run import Job, evaluate, load_suites

    preset = run.resolved.preset
    suites = load_suites(list(preset.eval.bench), preset.eval.data_dir, preset.eval.limit, console.say)
    job = Job(preset, suites, out, command=["grail", "demo"])
    for model in models:
        evaluate(model, job, opener(preset, suites, console), console)


def _analyse(run: Run, results: Path, out: Path, console: Console) -> list[Path]:
    """Where the credit of a run went: positions, figures and token maps from its checkpoints' samples."""
    from ..analysis import present
    from ..analysis.options import options_of
    from ..analysis.run import analyze_runs

    options, _ = options_of(run.resolved, every_rollout=True)
    readings, skipped = analyze_runs([run.folder], out, {run.folder.resolve().name: options}, console,
                                     results=results)
    present.write_data(readings, skipped, options, out)
    return present.draw(readings, options, out)


def _numbers(report, label: str, suite: str, run: Run) -> dict:
    acc, gain = report.score(label, suite).acc, report.differences[label, suite].estimate
    return {"accuracy": acc.value, "gain": gain.value, "gain_low": gain.low, "gain_high": gain.high,
            "run": str(run.folder.resolve()), "checkpoint": str(run.last.resolve())}


def _between(difference) -> dict:
    """The second method minus the first on the same problems, as shares."""
    estimate = difference.estimate
    return {"difference": estimate.value, "low": estimate.low, "high": estimate.high, "p": difference.p,
            "detectable": difference.detectable}


def _versus(ends: list[str], difference) -> str:
    """`grail@step-60 against grpo@step-60: -0.5 points (95 % -3.1 to +2.0), p 0.71: tied; ...`."""
    estimate = difference.estimate
    interval = "" if estimate.low is None else f" (95 % {100 * estimate.low:+.1f} to {100 * estimate.high:+.1f})"
    text = (f"{ends[1]} against {ends[0]}, paired by problem: {100 * estimate.value:+.1f} points{interval}, "
            f"p {difference.p:.2g}: {difference.words}.")
    if difference.words == "tied" and difference.detectable is not None:
        text += f" A true difference of {100 * difference.detectable:.1f} points would show four times in five."
    return text


def _next(out: Path, run: Run) -> list[str]:
    return [
        "grail presets diff tiny-grpo tiny-grail",
        f"grail train --preset tiny-oar-g --out {shlex.quote(str(out / 'runs' / 'oar-g'))}",
        f"grail eval --preset tiny-grpo --model {shlex.quote(str(run.last))} --bench arith-hard",
        "grail train --preset qwen3-grail --dry-run",
    ]
