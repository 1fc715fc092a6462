"""`grail bench`: the suites listed, fetched for use without a network, and checked row by row and gold by gold."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import GrailError, nearest
from .common import JsonOpt, QuietOpt, edge

EXAMPLES = [
    "grail bench list",
    "grail bench fetch aime24 math --data-dir suites",
    "grail bench check --data-dir suites",
]

app = typer.Typer(help="The suites: list, fetch, check.", no_args_is_help=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _suites(names: list[str] | None) -> list:
    from ..evaluation.benchmarks import SUITES

    unknown = next((name for name in names or [] if name not in SUITES), None)
    if unknown:
        raise GrailError(
            f"no suite {unknown!r} to fetch or check.",
            where="bench",
            hint=nearest(unknown, list(SUITES)),
            kind="unknown_suite",
        )
    return [SUITES[name] for name in names] if names else list(SUITES.values())


@app.command("list")
@edge
def list_(json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """The suites, where they come from and under which licence."""
    from ..evaluation.benchmarks import GENERATED, SUITES, manifest

    rows = [
        {
            "name": name,
            "rows": 200,
            "about": "arithmetic made by a seeded generator",
            "source": "generated",
            "licence": "Apache-2.0 (this project)",
            "hashes": False,
        }
        for name in GENERATED
    ]
    rows += [
        {
            "name": s.name,
            "rows": s.rows,
            "about": s.about,
            "source": f"{s.hub} ({s.split})",
            "licence": s.licence,
            "hashes": s.name in manifest(),
        }
        for s in SUITES.values()
    ]
    width = max(len(row["name"]) for row in rows)
    text = "\n".join(
        f"{row['name']:<{width}}  {row['rows']:>5}  {row['about']}; {row['source']}; {row['licence']}"
        for row in rows
    )
    Console(json=json, quiet=quiet).result({"suites": rows}, text)


@app.command()
@edge
def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SUITE]...", help="Suites; all of them when none is named.")
    ] = None,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Folder to write the files to.")] = Path(
        "suites"
    ),
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Download suites from the Hub into files that --data-dir reads."""
    from ..evaluation.hub import fetch as fetch_suite

    console = Console(json=json, quiet=quiet)
    files = {}
    for suite in _suites(names):
        console.say(f"{suite.name}: {suite.hub}")
        files[suite.name] = str(fetch_suite(suite, data_dir))
    console.result({"files": files}, "\n".join(files.values()))


@app.command()
@edge
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SUITE]...", help="Suites; all of them when none is named.")
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", help="Folder with the suites as files; without it: the Hub.")
    ] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Check rows against the manifest, and every gold as an ideal answer."""
    from ..evaluation.benchmarks import fingerprint, load_suite, manifest
    from ..evaluation.grade import Grader
    from ..evaluation.grading import gold_check
    from ..evaluation.run import grading_workers

    console = Console(json=json, quiet=quiet)
    found, faults = [], []
    with Grader(grading_workers()) as grader:
        for suite in _suites(names):
            try:
                _, problems = load_suite(suite.name, data_dir)
            except GrailError as fault:
                faults.append(fault)
                console.warn(f"{suite.name}: {fault.line()}")
                continue
            bad = gold_check(problems, grader)
            found.append(
                {
                    "suite": suite.name,
                    "rows": len(problems),
                    "hash": fingerprint(problems),
                    "rows_checked": suite.name in manifest(),
                    "ideal_answers_right": len(problems) - len(bad),
                    "unsettled": bad,
                }
            )
    lines = []
    for entry in found:
        lines.append(
            f"{entry['suite']}: {entry['rows']} rows "
            f"({'hashes as in the manifest' if entry['rows_checked'] else 'row count only'}), "
            f"ideal answers right {entry['ideal_answers_right']} of {entry['rows']}"
        )
        lines += [
            f"  {row['id']}: {row['gold']!r} as {row['as']}: {row['verdict']} ({row['rule']})"
            for row in entry["unsettled"]
        ]
    console.result({"suites": found, "not_checked": [fault.as_json() for fault in faults]}, "\n".join(lines))
    if faults:
        raise typer.Exit(1 if found else faults[0].exit_code)
