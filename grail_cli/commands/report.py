"""`grail report`: results folders into tables, a workbook, and a page with a browser of samples."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import GrailError
from ..files import write_text
from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge

EXAMPLES = [
    "grail report results",
    "grail report results --baseline base --format xlsx,html,tex",
    "grail report results --preset qwen3-grail --out paper.tex",
    "grail report results --check --json",
    "grail report sweep-results --paired --baseline grpo --out paired",
]


@edge
def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS",
            help="Folders of models' results, or folders that hold such folders; the reference's, too. With --paired "
            "also one paired.json.",
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="NAME", help="Compare every model with this one, paired by problem."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The report, by default report.xlsx; other formats lie beside it under "
            "the same name. With --paired a folder, by default paired."
        ),
    ] = None,
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
    paired: Annotated[
        bool,
        typer.Option("--paired", help="Compare the methods of a sweep over its seeds and problems, with two figures."),
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
    if paired:
        if check or format_:
            raise GrailError("has no effect with --paired.", where="--check" if check else "--format", kind="usage",
                             hint="leave it out.")
        return _paired(results, baseline, out or Path("paired"), load_preset(preset, sets=set or []), console)
    files = plan(out or Path("report.xlsx"), format_)
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


def _paired(results: list[Path], baseline: str | None, out: Path, resolved, console: Console) -> None:
    """Write paired.json, table.md, table.csv and the figures of a sweep into the folder `out`."""
    from ..reporting import paired_text
    from ..reporting.build import build
    from ..reporting.paired import read_document, rows, sweep_of
    from ..reporting.paired_figures import draw

    if out.suffix or out.is_file():
        raise GrailError("--paired writes several files, so it needs a folder.", where=f"--out {out}", kind="usage",
                         hint=f"--out {out.with_suffix('')}")
    if len(results) == 1 and results[0].suffix == ".json":
        sweep = read_document(results[0])
    else:
        sweep = sweep_of(build(results, None, console, None, resolved.preset.eval.strictness))
    against = baseline or ("grpo" if "grpo" in sweep.arms else sweep.arms[0])
    found = rows(sweep, against)
    write_text(out / "paired.json", sweep.text())
    write_text(out / "table.md", paired_text.markdown(sweep, found, against))
    write_text(out / "table.csv", paired_text.csv_text(found))
    files = [out / name for name in ("paired.json", "table.md", "table.csv")] + draw(sweep, found, against, out)
    for file in files:
        console.say(f"wrote {file.resolve()}")
    console.result({"baseline": against, "rows": [paired_text.as_json(row) for row in found],
                    "files": [str(file.resolve()) for file in files]}, paired_text.terminal(sweep, found, against))
