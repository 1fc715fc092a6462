"""The suites: one small declaration each, loaded from a folder of files or the Hub, checked against our
manifest.

The manifest (`data/suites.json`) holds ids and hashes of the exact rows, no problem text: whatever the
source, a row
is found by the hash of its question, so that ids and order are always ours. `NAME=PATH` is a local JSON
Lines file.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..errors import GrailError, nearest
from ..files import read_jsonl, sha256_text
from .boxes import last_box

_MANIFEST = Path(__file__).with_name("data") / "suites.json"
_QUESTION_FIELDS = ("question", "problem", "prompt", "input", "Problem", "Question")
_ANSWER_FIELDS = ("answer", "gold", "final_answer", "gt_answer", "target", "solution", "Answer", "label")
_ID_FIELDS = ("id", "unique_id", "idx", "problem_id", "ID")


@dataclass(frozen=True)
class Problem:
    """One row of a suite; gold is text."""

    id: str
    question: str
    gold: str


@dataclass(frozen=True)
class Suite:
    """Where a suite comes from and which of its fields are which. gold: reads the gold answer out of a
    row.
    """

    name: str
    about: str
    rows: int
    file: str
    hub: str
    split: str = "test"
    config: str | None = None
    revision: str | None = (
        None  # a commit of the data set; None: its newest, as the manifest's hashes refuse any changed row
    )
    question: str = "problem"
    gold: Callable[[Mapping], str] = field(default=lambda row: plain(row["answer"]))
    identity: Callable[[Mapping, int], str] = field(default=lambda row, index: str(row.get("id", index)))
    licence: str = "not stated by its source"


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


# fmt: off
SUITES = {suite.name: suite for suite in (
    Suite("aime24", "AIME 2024 I and II", 30, "aime24.jsonl", "HuggingFaceH4/aime_2024", "train",
          licence="not stated; problems by the MAA"),
    Suite("amc23", "AMC 12 2023, numeric answers", 40, "amc23.jsonl", "math-ai/amc23", question="problem",
          licence="not stated; problems by the MAA"),
    Suite("math", "MATH-500", 500, "math500.jsonl", "HuggingFaceH4/MATH-500", licence="MIT (MATH)",
          identity=lambda row, index: str(row.get("unique_id", index))),
    Suite("minerva_math", "MIT OpenCourseWare problems of Minerva", 272, "minerva_math.jsonl",
        "math-ai/minervamath", gold=boxed,
          identity=lambda row, index: str(row.get("idx", index)),
              licence="CC BY-NC-SA 4.0 (MIT OpenCourseWare)"),
    Suite("college_math", "college textbooks, the paper's 200 rows", 200, "college_math.jsonl",
        "di-zhang-fdu/College_Math_Test",
          question="question", licence="a licence a row: CC BY, CC BY-NC-SA, GFDL",
          identity=lambda row, index: f"{row['data_source'].split('.', 1)[-1]}/{row['question_number']}"),
    Suite("olympiadbench", "OlympiadBench, the paper's 200 rows", 200, "olympiadbench.jsonl",
        "math-ai/olympiadbench", question="question",
          gold=lambda row: plain(row["final_answer"]), licence="Apache-2.0 as its card says"),
    Suite("aime25", "AIME 2025 I and II", 30, "aime25.jsonl", "math-ai/aime25",
        licence="not stated; problems by the MAA"),
    Suite("gsm8k", "grade school word problems", 1319, "gsm8k.jsonl", "openai/gsm8k", config="main",
        question="question",
          gold=lambda row: plain(row["answer"]).rpartition("####")[2].strip(), licence="MIT",
          identity=lambda row, index: str(row.get("idx", index))),
)}
# fmt: on
PAPER = ("aime24", "amc23", "math", "minerva_math", "college_math", "olympiadbench")
GENERATED = ("arith", "arith-hard")


def suite_names() -> list[str]:
    """Every suite that can be named."""
    return [*GENERATED, *SUITES]


@lru_cache
def manifest() -> dict[str, dict]:
    """Suite -> {"rows": [[id, hash of question, hash of gold], ...]}: facts about the exact rows, no
    texts.
    """
    return json.loads(_MANIFEST.read_text(encoding="utf-8"))


def text_hash(text: str) -> str:
    """16 hex digits of a text's SHA-256, blanks made equal."""
    return sha256_text(" ".join(text.split()))[:16]


def suite_of(name: str) -> str:
    """What a suite given by name, as `NAME=PATH` or as a path is called in results."""
    label, equals, _ = name.partition("=")
    return Path(name).stem if not equals and name not in suite_names() else label


def load_suite(
    name: str, data_dir: str | None = None, say: Callable[[str], None] = lambda text: None
) -> tuple[str, list[Problem]]:
    """(suite name, problems) of a suite's name, `NAME=PATH`, or the path of a JSON Lines file.

    Raises GrailError for an unknown name, a missing file or column, or rows other than the manifest's.
    """
    label, _, path = name.partition("=")
    if path:
        return label, load_file(Path(path), label, say)
    if name in GENERATED:
        from ..tiny.task import suite_rows

        return name, [Problem(row["id"], row["question"], row["answer"]) for row in suite_rows(name)]
    if name in SUITES:
        return name, _known(SUITES[name], data_dir)
    if name.endswith((".jsonl", ".json")) or "/" in name:
        return suite_of(name), load_file(Path(name), suite_of(name), say)
    raise GrailError(
        f"no suite {name!r}.",
        where="eval.bench",
        kind="unknown_suite",
        hint=f"{nearest(name, suite_names())}, or a file: --bench NAME=FILE.jsonl",
    )


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
    question = _column(rows, _QUESTION_FIELDS, "a question", path)
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


def _known(suite: Suite, data_dir: str | None) -> list[Problem]:
    if data_dir is not None:
        path = Path(data_dir) / suite.file
        if not path.is_file() and (Path(data_dir) / f"{suite.name}.jsonl").is_file():
            path = Path(data_dir) / f"{suite.name}.jsonl"
        if not path.is_file():
            raise GrailError(
                f"no file {suite.file} or {suite.name}.jsonl.",
                where=data_dir,
                kind="missing_file",
                hint=f"grail bench fetch {suite.name} --data-dir {data_dir}, or leave --data-dir out to use "
                f"the Hub.",
            )
        rows, source = read_jsonl(path), str(path)
    else:
        from .hub import hub_rows

        rows, source = hub_rows(suite), f"Hub {suite.hub}"
    return problems_of(suite, rows, source)


def problems_of(suite: Suite, rows: list[dict], source: str) -> list[Problem]:
    """The suite's problems out of a source's rows, in the manifest's order and with its ids; every hash is
    checked.
    """
    question = (
        suite.question
        if rows and suite.question in rows[0]
        else next((name for name in _QUESTION_FIELDS if rows and name in rows[0]), None)
    )
    if question is None:
        raise GrailError(
            f"no column {suite.question!r}; there are: {', '.join(rows[0]) if rows else 'no rows'}.",
            where=source,
            kind="bad_data",
        )
    try:
        found = [
            Problem(suite.identity(row, index), plain(row[question]), suite.gold(row))
            for index, row in enumerate(rows)
        ]
    except KeyError as error:
        raise GrailError(
            f"no column {error.args[0]!r} for suite {suite.name}; there are: {', '.join(rows[0])}.",
            where=source,
            kind="bad_data",
            hint=f"use a copy with the fields of {suite.hub}, or --bench {suite.name}=FILE.",
        ) from None
    facts = manifest().get(suite.name)
    if facts is None:
        if len(found) != suite.rows:
            raise GrailError(
                f"{len(found)} rows, where {suite.name} has {suite.rows}.", where=source, kind="bad_data"
            )
        return found
    by_hash: dict[str, list[Problem]] = {}
    for problem in found:
        by_hash.setdefault(text_hash(problem.question), []).append(problem)
    problems, missing, changed = [], [], []
    for name, question_hash, gold_hash in facts["rows"]:
        candidates = by_hash.get(question_hash, [])
        if not candidates:
            missing.append(name)
            continue
        same = [p for p in candidates if text_hash(p.gold) == gold_hash]
        if not same:
            changed.append(name)
        problems.append(Problem(name, (same or candidates)[0].question, (same or candidates)[0].gold))
    if missing or changed:
        what = (
            f"{len(missing)} of {len(facts['rows'])} questions are not there"
            if missing
            else f"{len(changed)} golds differ"
        )
        raise GrailError(
            f"not the rows of {suite.name}: {what} (first: {(missing or changed)[0]}).",
            where=source,
            kind="bad_data",
            hint=f"use the rows of {suite.hub}, or take the file as a suite of its own: --bench "
            f"my_{suite.name}=FILE.",
        )
    return problems


def fingerprint(problems: list[Problem]) -> str:
    """A hash of ids, questions and golds, in order."""
    return sha256_text(json.dumps([[p.id, p.question, p.gold] for p in problems], ensure_ascii=False))[:16]


def safe_name(name: str) -> str:
    """A suite's name as a folder's name."""
    return re.sub(r"[^\w.@+-]+", "_", name) or "suite"
