"""`grail demo`: the whole loop on the tiny model, in minutes on two CPU cores."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from .common import JsonOpt, QuietOpt, SetOpt, edge

EXAMPLES = [
    "grail demo",
    "grail demo --out demo-2 --set train.seed=1",
    "grail demo --json --quiet",
]


@edge
def demo(
    out: Annotated[Path, typer.Option(
        "--out", "-o", metavar="DIR", help="Folder of the demo; a demo that was stopped there goes on."
    )] = Path("demo"),
    set: SetOpt = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Train GRPO and GRAIL on the tiny model, grade both, and write table, report and figures."""
    from ..demo.run import run_demo

    console = Console(json=json, quiet=quiet)
    result = run_demo(out, sets=set or [], console=console)
    console.result(result.document, result.table)
    console.say("files:\n" + "\n".join(f"  {file}" for file in result.main_files))
    console.say("next:\n" + "\n".join(f"  {line}" for line in result.following))
