"""`grail report`: results folders into tables, a workbook, and a page with a browser of samples."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge

EXAMPLES = [
    "grail report results",
    "grail report results --baseline base --format xlsx,html,tex",
    "grail report results --preset qwen3-grail --out paper.tex",
    "grail report results --check --json",
]


@edge
def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS",
            help="Folders of models' results, or folders that hold such folders; the reference's, too.",
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="NAME", help="Compare every model with this one, paired by problem."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The report; other formats lie beside it under the same name."
        ),
    ] = Path("report.xlsx"),
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="LIST",
            help="One or several of xlsx, csv, md, html, tex, with commas; by default that of --out.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Recompute every number of each eval_summary.json from the samples; fail on a difference.",
        ),
    ] = False,
    preset: PresetOpt = None,
    set: SetOpt = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Compile results into tables with intervals and, with --baseline, paired differences.

    The columns are the suites found, or those of eval.bench when --preset or --set names it, in its order.
    """
    from ..evaluation.benchmarks import suite_of
    from ..presets.load import load_preset
    from ..reporting.build import build, document
    from ..reporting.check import check_summaries
    from ..reporting.text import terminal
    from ..reporting.write import plan, write

    console = Console(json=json, quiet=quiet)
    files = plan(out, format_)
    resolved = load_preset(preset, sets=set or [])
    section, named = resolved.preset.eval, resolved.origins["eval.bench"] != "default"
    suites = list(dict.fromkeys(map(suite_of, section.bench))) if named else None
    made = build(results, baseline, console, suites, section.strictness)
    checked = check_summaries(made.models) if check else None
    if checked:
        console.say(f"checked: {checked['compared']} numbers agree with the samples")
    write(made, files)
    for file in files:
        console.say(f"wrote {file.resolve()}")
    console.result(document(made, files, checked), terminal(made).rstrip())
