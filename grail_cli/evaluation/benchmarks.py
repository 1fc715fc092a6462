"""The suites: one small declaration each, loaded from a folder of files or the Hub, checked against our manifest.

The manifest (`data/suites.json`) holds ids and hashes of the exact rows, no problem text: whatever the source, a row
is found by the hash of its question, so that ids and order are always ours. `NAME=PATH` is a local JSON Lines file.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..errors import GrailError, nearest
from ..files import read_jsonl, sha256_text
from .rows import QUESTION_FIELDS, Problem, boxed, load_file, plain

_MANIFEST = Path(__file__).with_name("data") / "suites.json"


@dataclass(frozen=True)
class Suite:
    """Where a suite comes from and which of its fields are which. gold: reads the gold answer out of a row."""

    name: str
    about: str
    rows: int
    file: str
    hub: str
    split: str = "test"
    config: str | None = None
    revision: str | None = None  # a commit of the data set; None: its newest. Changed rows are refused in any case
    question: str = "problem"
    gold: Callable[[Mapping], str] = field(default=lambda row: plain(row["answer"]))
    identity: Callable[[Mapping, int], str] = field(default=lambda row, index: str(row.get("id", index)))
    licence: str = "not stated by its source"


# fmt: off
SUITES = {suite.name: suite for suite in (
    Suite("aime24", "AIME 2024 I and II", 30, "aime24.jsonl", "HuggingFaceH4/aime_2024", "train",
          revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
          licence="not stated; problems by the MAA"),
    Suite("amc23", "AMC 12 2023, numeric answers", 40, "amc23.jsonl", "math-ai/amc23",
          revision="80815d37005feb82cd7f8fbc6901d5d3eff43057",
          licence="not stated; problems by the MAA"),
    Suite("math", "MATH-500", 500, "math500.jsonl", "HuggingFaceH4/MATH-500",
          revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", licence="MIT (MATH)",
          identity=lambda row, index: str(row.get("unique_id", index))),
    Suite("minerva_math", "MIT OpenCourseWare problems of Minerva", 272, "minerva_math.jsonl", "math-ai/minervamath",
          revision="ee46ddc498933b1977577953250ca5c66be64f96",
          gold=boxed, identity=lambda row, index: str(row.get("idx", index)),
          licence="CC BY-NC-SA 4.0 (MIT OpenCourseWare)"),
    Suite("college_math", "college textbooks, the paper's 200 rows", 200, "college_math.jsonl",
          "di-zhang-fdu/College_Math_Test", question="question",
          identity=lambda row, index: f"{row['data_source'].split('.', 1)[-1]}/{row['question_number']}",
          licence="a licence a row: CC BY, CC BY-NC-SA, GFDL"),
    Suite("olympiadbench", "OlympiadBench, the paper's 200 rows", 200, "olympiadbench.jsonl", "math-ai/olympiadbench",
          revision="4faaf1e6ec17d11a4218a9bf4c049ecaf954dd84",
          question="question", gold=lambda row: plain(row["final_answer"]), licence="Apache-2.0 as its card says"),
    Suite("aime25", "AIME 2025 I and II", 30, "aime25.jsonl", "math-ai/aime25",
          revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
          licence="not stated; problems by the MAA"),
    Suite("gsm8k", "grade school word problems", 1319, "gsm8k.jsonl", "openai/gsm8k", config="main",
          revision="740312add88f781978c0658806c59bc2815b9866",
          question="question", gold=lambda row: plain(row["answer"]).rpartition("####")[2].strip(),
          identity=lambda row, index: str(row.get("idx", index)), licence="MIT"),
)}
# fmt: on
PAPER = ("aime24", "amc23", "math", "minerva_math", "college_math", "olympiadbench")
GENERATED = ("arith", "arith-hard")


def suite_names() -> list[str]:
    """Every suite that can be named."""
    return [*GENERATED, *SUITES]


@lru_cache
def manifest() -> dict[str, dict]:
    """Suite -> {"rows": [[id, hash of question, hash of gold], ...]}: facts about the exact rows, no texts."""
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
    """The suite's problems out of a source's rows, in the manifest's order and with its ids; every hash is checked."""
    question = (
        suite.question
        if rows and suite.question in rows[0]
        else next((name for name in QUESTION_FIELDS if rows and name in rows[0]), None)
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
