"""`grail analyze`: where the credit goes, and whether it deserves it."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge
from ..console import Console
from ..errors import GrailError

EXAMPLES = [
    "grail analyze --checkpoints runs/tiny-grail --plot",
    "grail analyze --model tiny --rollouts rollouts.jsonl --set credit.method=grail --out analysis",
    "grail analyze --checkpoints runs/tiny-grail --rollouts runs/tiny-grail/completions --plot",
    "grail analyze --checkpoints runs/a --checkpoints runs/b --texts shared --compare grail,oar_g,shuffled --plot",
]


@edge
def analyze(
    checkpoints: Annotated[list[Path] | None, typer.Option(
        "--checkpoints", "-c", metavar="RUN", help="Run folder with checkpoint-N folders; repeat to overlay runs."),
    ] = None,
    results: Annotated[Path | None, typer.Option(
        "--results", metavar="DIR", help="Results of `grail eval` on the checkpoints. Default: results/ in the run, "
        "beside it, or here.")] = None,
    model: Annotated[str | None, typer.Option(
        "--model", "-m", metavar="CKPT", help="One checkpoint, with --rollouts: folder, Hub id, or tiny.")] = None,
    rollouts: Annotated[Path | None, typer.Option(
        "--rollouts", "-r", metavar="FILE", help="Rollouts: .jsonl, samples.jsonl, .parquet, or RUN/completions. With "
        "--checkpoints they are the shared texts.")] = None,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="DIR", help="Output folder. Default: analysis in the run, or here.")] = None,
    texts: Annotated[str | None, typer.Option(
        "--texts", metavar="own|shared", help="Each checkpoint's own samples, or the same for all.")] = None,
    compare: Annotated[str | None, typer.Option(
        "--compare", metavar="METHOD,...", help="Agreement of methods on the same rollouts, such as "
        "grpo,grail,oar_g,entropy,shuffled; settings after a colon, such as grail:leaf=last or oar_g:seed=1.")] = None,
    faithfulness: Annotated[bool, typer.Option(
        "--faithfulness", help="Delete tokens and see what the answer loses; OAR-P and a random model beside it. "
        "Costs forward passes.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Figures (PNG, PDF) and the page of token maps.")] = False,
    show: Annotated[str | None, typer.Option(
        "--show", metavar="ID", help="Print one rollout as a token map (an id, or `first`).")] = None,
    series: Annotated[str | None, typer.Option(
        "--series", metavar="NAME", help="What --show colours by: weight (default), score, entropy or logprob.")] = None,
    preset: PresetOpt = None, set: SetOpt = None, json: JsonOpt = False, quiet: QuietOpt = False,
) -> None:
    """Where the credit goes: positions, agreement with entropy and position, token maps, faithfulness.

    From a run and its samples (--checkpoints), or from one model and a file of rollouts (--model, --rollouts).
    """
    console = Console(json=json, quiet=quiet)
    _check_inputs(checkpoints, results, model, rollouts, show, series, texts)
    from ..analysis.variants import read_variants

    methods = read_variants(compare) if compare else ()
    runs = checkpoints or []
    resolved = {run: _resolve(preset, run, set, texts) for run in runs} or {None: _resolve(preset, None, set, texts)}
    from ..analysis.options import options_of
    from ..analysis.plan import checkpoints_of
    from ..analysis.run import analyze_rollouts, analyze_runs

    options, notes = {}, []
    for run, one in resolved.items():
        options[run], more = options_of(one, every_rollout=bool(runs), compare=methods, faithful=faithfulness)
        notes += more
    for run in runs:
        checkpoints_of(run)  # its faults come before anything is announced
    chosen = options[runs[0] if runs else None]
    folder = out or (runs[0] / "analysis" if runs else Path("analysis"))
    for note in dict.fromkeys(notes):
        console.say(note)
    what, credit = ", ".join(map(str, runs)) or model, chosen.settings
    console.say(f"analysing {what}: {credit.method}, leaf {credit.leaf}, temperature {chosen.temperature:g}\n"
                f"writing to {folder.resolve()}; stopped, the same command goes on at the next checkpoint")
    if runs:
        readings, skipped = analyze_runs(
            runs, folder, {run.resolve().name: options[run] for run in runs}, console, results=results,
            rollouts=rollouts, texts=chosen.section.texts)
    else:
        readings, skipped = [analyze_rollouts(model, rollouts, folder, chosen, console)], {}
    _finish(readings, skipped, chosen, folder, console, plot=plot, show=show, series=series or "weight")


def _check_inputs(checkpoints: list[Path] | None, results: Path | None, model: str | None, rollouts: Path | None,
                  show: str | None, series: str | None, texts: str | None) -> None:
    """Refuse combinations that leave open what to analyse, before anything heavy is imported."""
    if bool(checkpoints) == bool(model):
        raise GrailError("give either --checkpoints RUN or --model CKPT with --rollouts FILE"
                         + (", not both." if model else "."), hint=EXAMPLES[0])
    if model and rollouts is None:
        raise GrailError("--model needs the rollouts to score.", where="--rollouts", hint=EXAMPLES[1])
    if model and results is not None:
        raise GrailError("--results goes with --checkpoints.", where="--results",
                         hint="give its samples.jsonl with --rollouts.")
    if texts == "own" and rollouts is not None:
        raise GrailError("one file of rollouts is the same for every checkpoint.", where="--texts own",
                         hint="leave out --texts, or --rollouts.")
    if rollouts is not None and not rollouts.exists():
        raise GrailError("no such file or folder.", where=f"--rollouts {rollouts}", kind="missing_file")
    if series is not None and show is None:
        raise GrailError("colours what --show prints.", where=f"--series {series}", hint="add --show ID, or --show first.")
    if series not in (None, "weight", "score", "entropy", "logprob"):
        raise GrailError(f"{series!r} is none of weight, score, entropy, logprob.", where="--series")


def _resolve(preset: str | None, run: Path | None, sets: list[str] | None, texts: str | None):
    """The run's own preset, unless another is asked for; --set and --texts on top."""
    from ..presets import load_preset

    own = run / "preset.yaml" if run is not None else None
    name = preset or (str(own) if own is not None and own.is_file() else None)
    return load_preset(name, sets=sets or [], flags={"analyze.texts": texts})


def _finish(readings: list, skipped: dict[str, str], options, folder: Path, console: Console, *, plot: bool,
            show: str | None, series: str) -> None:
    """Write tables and figures, and print the result once."""
    from ..analysis import present
    from ..analysis.tokenmap import series_values, terminal_map

    document = present.write_data(readings, skipped, options, folder)
    files = [str(path) for path in present.draw(readings, options, folder)] if plot else []
    human = present.summary_view(readings, options, folder)
    if show is not None:
        one = next((s for r in reversed(readings) for s in r.scored if show in ("first", s.rollout.id)), None)
        if one is None:
            raise GrailError(f"no scored rollout {show!r}.", where="--show",
                             hint="ids are in tokens.jsonl; `first` is the first one.")
        if series_values(one, series) is None:
            raise GrailError(f"{series} was not measured.", where="--series")
        human = terminal_map(one, series, centre=options.settings.mean)
    console.result({"out": str(folder.resolve()), **document, "files": files,
                    "tables": {r.task.label: r.summary["tables"] for r in readings}}, human)
    console.say(f"next: open {shlex.quote(str(folder / 'tokens.html'))}" if plot else "next: add --plot for figures and token maps")
