"""Rows of a JSON Lines file as problems: field names guessed and told, every fault with its line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import GrailError
from ..files import read_jsonl
from .boxes import last_box

QUESTION_FIELDS = ("question", "problem", "prompt", "input", "Problem", "Question")
_ANSWER_FIELDS = ("answer", "gold", "final_answer", "gt_answer", "target", "solution", "Answer", "label")
_ID_FIELDS = ("id", "unique_id", "idx", "problem_id", "ID")


@dataclass(frozen=True)
class Problem:
    """One row of a suite; gold is text."""

    id: str
    question: str
    gold: str


def plain(value: object) -> str:
    """A gold as text: 27.0 -> '27', a list -> its first entry (see `_one_answer` for files of one's own)."""
    if isinstance(value, list | tuple):
        value = value[0] if value else ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def boxed(row: Mapping) -> str:
    """The last box of `solution`; a copy without solutions has it as `answer`."""
    return (last_box(plain(row["solution"])) or "") if "solution" in row else plain(row["answer"])


def load_file(path: Path, name: str, say: Callable[[str], None] = lambda text: None) -> list[Problem]:
    """A local JSON Lines file as a suite; the field names are guessed and told."""
    rows = read_jsonl(path)
    if not rows:
        raise GrailError(
            "the file has no rows.",
            where=str(path),
            kind="bad_data",
            hint="one JSON object a line: question, answer.",
        )
    columns = list(rows[0])
    question = _column(rows, QUESTION_FIELDS, "a question", path)
    answer = _column(rows, _ANSWER_FIELDS, "a gold answer", path)
    identity = next((key for key in _ID_FIELDS if all(key in row for row in rows)), None)
    say(
        f"{name}: {len(rows)} rows of {path}; question = {question!r}, gold = {answer!r}"
        f"{' (its last box)' if answer == 'solution' else ''}, id = {identity or 'the row number'!r} "
        f"of {', '.join(columns)}"
    )
    problems = []
    for index, row in enumerate(rows):
        _one_answer(row[answer], f"{path}:{index + 1}")
        gold = (boxed(row) or plain(row[answer])) if answer == "solution" else plain(row[answer])
        if "####" in gold:
            gold = gold.rpartition("####")[2].strip()
        problems.append(
            Problem(str(row[identity] if identity else index), _question_text(row[question]), gold)
        )
    seen: set[str] = set()
    for index, problem in enumerate(problems, start=1):
        if problem.id in seen:
            raise GrailError(
                f"the id {problem.id!r} comes twice.",
                where=f"{path}:{index}",
                kind="bad_data",
                hint="give every row its own id, or none.",
            )
        seen.add(problem.id)
    return problems


def _one_answer(value: object, where: str) -> None:
    """Raise GrailError for a gold that is a list of several: any of them, or all? The first alone is a guess."""
    if isinstance(value, list) and len(value) > 1:
        raise GrailError(
            f"the gold is a list of {len(value)} answers.",
            where=where,
            kind="bad_data",
            hint="write what is wanted as one text: \"2, 3\" for both values, \"(2, 3)\" for a pair.",
        )


def _question_text(value: object) -> str:
    """A question: text, or the last user turn of chat messages."""
    if isinstance(value, list):
        turns = [turn["content"] for turn in value if isinstance(turn, dict) and turn.get("role") == "user"]
        return turns[-1] if turns else ""
    return str(value)


def _column(rows: list[dict], names: tuple[str, ...], what: str, path: Path) -> str:
    for name in names:
        if all(row.get(name) is not None for row in rows):
            return name
    partial = [name for name in names if name in rows[0]]
    if partial:
        line = next(index for index, row in enumerate(rows, start=1) if row.get(partial[0]) is None)
        raise GrailError(
            f"the column {partial[0]!r} is missing or empty in line {line}.",
            where=f"{path}:{line}",
            kind="bad_data",
        )
    raise GrailError(
        f"no column with {what}; there are: {', '.join(rows[0])}.",
        where=str(path),
        kind="bad_data",
        hint=f"name it one of: {', '.join(names)}.",
    )
