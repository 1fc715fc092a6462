"""`grail eval`: sample and grade the suites, resume, summarise; --regrade grades old samples again without a model."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import GrailError
from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge

EXAMPLES = [
    "grail eval --model tiny --bench arith --n 3 --limit 20",
    "grail eval --preset qwen3-grail --model runs/a/checkpoint-200 runs/b/checkpoint-200 --bench "
    "aime24,math --data-dir suites",
    "grail eval --model Qwen/Qwen3-4B --bench my=problems.jsonl --backend http://127.0.0.1:8000/v1",
    "grail eval --regrade results/qwen3-grail@step-200",
]


def complete_bench(incomplete: str) -> list[str]:
    """Suite names that begin like the last one typed."""
    from ..evaluation.benchmarks import suite_names

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in suite_names() if name.startswith(last)]


@edge
def eval(
    more_models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="More models, behind the first one.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="Checkpoint folder, Hub id or `tiny`; several may follow."
        ),
    ] = None,
    bench: Annotated[
        list[str] | None,
        typer.Option(
            "--bench",
            "-b",
            metavar="SUITE,...",
            help="Suites by name, NAME=FILE.jsonl or FILE.jsonl.",
            autocompletion=complete_bench,
        ),
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="Samples a problem.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="First N problems of each suite.")] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", help="auto, transformers, vllm, or the URL of a server.")
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", help="Folder with the suites as files (no network).")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of results; one folder a model in it.")
    ] = Path("results"),
    regrade: Annotated[
        list[Path] | None,
        typer.Option(
            "--regrade", metavar="DIR", help="Grade the samples in this folder again; needs no model."
        ),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Move results of other settings aside instead of refusing.")
    ] = False,
    mix_backends: Annotated[
        bool, typer.Option("--mix-backends", help="Let another kind of backend add to the samples that are there.")
    ] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Count without samples that failed.")
    ] = False,
    preset: PresetOpt = None,
    set: SetOpt = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Sample and grade models on suites; an interrupted command goes on where it was.

    Without --preset, a checkpoint of a run is evaluated as the run's own preset.yaml says.
    """
    from ..presets.load import load_preset

    console = Console(json=json, quiet=quiet)
    names = [name for entry in bench for name in entry.split(",") if name] if bench else None
    flags = {
        "eval.bench": names,
        "eval.n": n,
        "eval.limit": limit,
        "eval.backend": backend,
        "eval.data_dir": data_dir,
    }

    def resolve(name: str | None):
        return load_preset(name, sets=set or [], flags=flags)

    if regrade:
        from ..evaluation.regrade import regrade_folder

        given = {"--model": model or more_models, "--new": new, "--allow-missing": allow_missing}
        given["--mix-backends"] = mix_backends
        given |= {f"--{key.removeprefix('eval.').replace('_', '-')}": value for key, value in flags.items()}
        stray = [flag for flag, value in given.items() if value]
        if stray:
            raise GrailError(
                f"{', '.join(stray)} would have no effect: the samples that lie there are graded, all of them.",
                where="--regrade",
                hint="leave it out.",
            )
        resolved = resolve(preset)
        named = resolved.origins["eval.strictness"] != "default"
        strictness = resolved.preset.eval.strictness if named else None
        documents = [regrade_folder(folder, out, strictness, console) for folder in regrade]
        return console.result({"regraded": documents}, "\n".join(map(_changes_text, documents)))
    models = [*(model or []), *(more_models or [])] or ([resolve(preset).preset.model.path] if preset else [])
    if not models:
        raise GrailError(
            "no model was given.", where="--model", hint="grail eval --model FOLDER|HUB-ID|tiny --bench arith"
        )
    from ..evaluation.open import chosen, opener
    from ..evaluation.own import check_prompts, own_settings
    from ..evaluation.run import Job, evaluate, load_suites
    from ..evaluation.table import summary_table
    from ..models import check_folder, is_local, label, resolve_model

    if preset:
        resolved = resolve(preset)
    else:
        resolved, own = own_settings(models, resolve)
        if own:
            console.say(f"settings: {own}, as no --preset is given")
    section = resolved.preset.eval
    labels: dict[str, str] = {}
    for name in models:
        if label(name) in labels:
            raise GrailError(
                f"{labels[label(name)]!r} and {name!r} are both called {label(name)!r}.",
                where="--model",
                hint="evaluate them into two folders with --out.",
            )
        labels[label(name)] = name
        source = resolve_model(name, where="--model")
        if is_local(source):
            check_folder(source, where="--model")
            check_prompts(source, resolved)
    suites = load_suites(list(section.bench), section.data_dir, section.limit, console.say)
    open_backend = opener(resolved.preset, suites, console)
    kind = chosen(section.backend)
    job = Job(resolved.preset, suites, out, new, allow_missing, sys.argv, mix_backends,
              None if kind == "server" else kind)  # a server says itself what it is
    documents = [evaluate(name, job, open_backend, console) for name in models]
    console.result({"models": documents}, summary_table(documents))
    if not quiet:
        console.say(f"next: grail report {shlex.join(document['folder'] for document in documents)}")


def _changes_text(document: dict) -> str:
    lines = [
        f"{document['folder']}: {document['samples']} samples graded, {len(document['changed'])} verdicts "
        f"changed"
    ]
    lines += [
        f"  {c['suite']} {c['id']} sample {c['sample']}: {c['before']} -> {c['after']} ({c['rule']})"
        for c in document["changed"]
    ]
    return "\n".join(lines)
