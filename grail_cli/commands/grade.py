"""`grail grade`: verdicts for lines of {gold, completion}, each with the rule that decided."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import GrailError
from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge

EXAMPLES = ["grail grade answers.jsonl", "grail grade answers.jsonl --strict --json"]


@edge
def grade(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.jsonl", help="Lines of {gold, completion} and an optional id.")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Same as --set eval.strictness=strict.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Grading processes; the cores, four at most.")
    ] = None,
    preset: PresetOpt = None,
    set: SetOpt = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Grade completions against gold answers."""
    from ..evaluation.grade import Grader
    from ..evaluation.run import grading_workers
    from ..files import read_jsonl
    from ..presets.load import load_preset

    console = Console(json=json, quiet=quiet)
    section = load_preset(
        preset, sets=set or [], flags={"eval.strictness": "strict" if strict else None}
    ).preset.eval
    rows = read_jsonl(file)
    if not rows:
        raise GrailError("holds no line to grade.", where=str(file), kind="bad_file",
                         hint='a line is {"gold": ..., "completion": ...}, id optional.')
    for number, row in enumerate(rows, start=1):
        missing = [key for key in ("gold", "completion") if key not in row]
        if missing:
            raise GrailError(
                f"line {number} has no {missing[0]!r}; it has: {', '.join(row)}.",
                where=f"{file}:{number}",
                kind="bad_file",
                hint='a line is {"gold": ..., "completion": ...}, id optional.',
            )
        if not isinstance(row["completion"], str):
            raise GrailError(
                f"the completion of line {number} is no text.", where=f"{file}:{number}", kind="bad_file"
            )
    with (
        Grader(workers or grading_workers(), section.strictness) as grader,
        console.progress("grading", total=None, unit="answers") as bar,
    ):
        verdicts = grader.grade([(row["gold"], row["completion"]) for row in rows], bar.advance)
    results = [
        {
            "id": row.get("id", number),
            "correct": v.correct,
            "verdict": v.verdict,
            "rule": v.rule,
            "seconds": v.seconds,
        }
        for number, (row, v) in enumerate(zip(rows, verdicts, strict=True), start=1)
    ]
    right = sum(v.correct for v in verdicts)
    lines = [f"{result['id']}\t{result['verdict']}\t{result['rule']}" for result in results]
    console.say(f"{right} of {len(results)} correct")
    console.result({"results": results}, "\n".join(lines))
