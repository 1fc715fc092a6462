"""Results folders -> ModelResults: read, grade what has no verdict, pair problems, say what is odd.

Everything is taken from the samples; a summary lies beside them only to be compared. Reading is the
evaluation room's (`store.read_results`), so that a folder means the same to every command.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import Faults, GrailError, raise_all
from ..evaluation.grade import VERDICTS
from ..evaluation.judge import listed
from ..evaluation.store import read_results
from .find import JOURNAL, REFERENCE_FILES, Found, find
from .model import ModelResults, Problem, Sample

LONGEST_SETTING = 300  # characters of one setting shown
# (gold, completion) pairs -> verdicts as evaluation.grade gives them
Grade = Callable[[list[tuple[object, str]]], list]


def collect(paths: Sequence[str | Path], grade: Grade, warn: Callable[[str], None]) -> list[ModelResults]:
    """The results below the paths, one entry a model folder, problems keyed alike in all of them.

    grade: judges (gold, completion) pairs that carry no verdict (the reference's files carry none). warn: told, in one
    sentence, of what changes a number. Raises GrailError, all faults at once.
    """
    models, faults = [], []
    for found in find(paths):
        try:
            models.append(_read(found, grade, warn))
        except Faults as several:
            faults += several.faults
        except GrailError as fault:
            faults.append(fault)
    raise_all(faults)
    return _keyed_alike(models)


def _read(found: Found, grade: Grade, warn: Callable[[str], None]) -> ModelResults:
    results = read_results(found.folder)
    for name, document in (("manifest.json", results.manifest), ("eval_summary.json", results.summary)):
        if not isinstance(document, dict | None):
            raise GrailError("no JSON object.", where=str(found.folder / name), kind="bad_file")
    for file in sorted([*found.folder.glob("*/samples.jsonl"), *found.folder.glob(REFERENCE_FILES)]):
        _look_at(file, found, warn)
    for journal in sorted(found.folder.glob(f"*/{JOURNAL}")):
        warn(
            f"{found.label}: {journal.parent.name} is still being sampled; what is not finished is left out."
        )
    suites = {suite: tuple(content.problems) for suite, content in results.suites.items()}
    for suite, lines in suites.items():
        for row, line in enumerate(lines, 1):
            _check_samples(line, f"{found.folder}, {suite}, problem {row}")
    ungraded = _grade_missing([line for lines in suites.values() for line in lines], grade)
    if ungraded:
        warn(f"{found.label}: {ungraded} samples carry no verdict and were graded now.")
    manifest = results.manifest or {}
    graded_here = "grader" in (manifest.get("settings") or {})
    marked = {suite for suite, lines in suites.items() if _list_graded(lines, graded_here)}
    for suite in sorted(marked):
        warn(_marked_words(found, suite, bool(ungraded)))
    return ModelResults(
        found.label,
        str(found.folder),
        {suite: tuple(map(_problem, lines)) for suite, lines in suites.items()},
        flat(manifest),
        results.summary or {},
        suites,
        frozenset(marked),
        found.run,
        found.step,
    )


def _look_at(file: Path, found: Found, warn: Callable[[str], None]) -> None:
    """Tell of a torn last line, and of a summary that the samples have overtaken."""
    name, summary = file.relative_to(found.folder), found.folder / "eval_summary.json"
    data = b"" if _ends_whole(file) else file.read_bytes()
    last = data.rpartition(b"\n")[2]
    if last.strip():
        try:
            json.loads(last)
        except (json.JSONDecodeError, UnicodeDecodeError):
            warn(f"{found.label}: the last line of {name} is torn and left out.")
    if summary.is_file() and summary.stat().st_mtime_ns < file.stat().st_mtime_ns:
        words = f"{found.label}: eval_summary.json is older than {name}"
        warn(f"{words}; the numbers here are computed from the samples.")


def _ends_whole(file: Path) -> bool:
    """Whether the file's last line has its line end, or the file is empty."""
    with open(file, "rb") as handle:
        if not handle.seek(0, 2):
            return True
        handle.seek(-1, 2)
        return handle.read(1) == b"\n"


def _check_samples(line: dict, where: str) -> None:
    """Refuse samples of the wrong shape, and drop the token ids: most of a folder's size, and never shown."""
    line.pop("prompt_ids", None)
    for number, sample in enumerate(line["generated_solutions"]):
        sample.pop("completion_ids", None)
        text, tokens, verdict = (sample.get(key) for key in ("solution", "completion_tokens", "verdict"))
        if not isinstance(text, str | None):
            fault = f"'solution' of sample {number} is a {type(text).__name__}, where text is needed."
        elif isinstance(tokens, bool) or not isinstance(tokens, int | float | None):
            fault = f"'completion_tokens' of sample {number} is {tokens!r}, where a number is needed."
        elif verdict and verdict not in VERDICTS:
            fault = f"the verdict of sample {number} is {verdict!r}; allowed: {', '.join(VERDICTS)}."
        else:
            continue
        raise GrailError(fault, where=where, kind="bad_file")


def _grade_missing(lines: Sequence[dict], grade: Grade) -> int:
    """Give every sample `verdict` and `correct`, by each other where one is there; how many were graded."""
    ungraded = []
    for line in lines:
        for sample in line["generated_solutions"]:
            if sample.get("verdict"):
                sample.setdefault("correct", sample["verdict"] == "correct")
            elif sample.get("correct") is not None:
                sample["verdict"] = verdict_of(sample)
            else:
                ungraded.append((line.get("gt_answer"), sample))
    if ungraded:
        verdicts = grade([(gold, sample.get("solution") or "") for gold, sample in ungraded])
        for (_, sample), verdict in zip(ungraded, verdicts, strict=True):
            sample |= {"verdict": verdict.verdict, "correct": verdict.correct}
            sample |= {"rule": verdict.rule, "pred_answer": verdict.pred}
    return len(ungraded)


def _problem(line: Mapping) -> Problem:
    """One line of samples.jsonl; `id` stays empty where the line has none (the reference's)."""
    samples = tuple(
        Sample(
            s.get("solution") or "",
            _text(s.get("pred_answer")),
            s.get("completion_tokens"),
            s["verdict"],
            s.get("rule") or "",
            s.get("finish_reason") or "",
        )
        for s in line["generated_solutions"]
    )
    return Problem(
        "" if line.get("id") is None else str(line["id"]),
        line.get("question") or "",
        _text(line.get("gt_answer")) or "",
        samples,
    )


def verdict_of(sample: Mapping) -> str:
    """The verdict of a sample that only says whether it is correct, as other tools write it."""
    if sample["correct"]:
        return "correct"
    return "no_box" if sample.get("pred_answer") is None else "wrong"


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _list_graded(lines: Sequence[Mapping], graded_here: bool) -> bool:
    """Whether verdicts rest on the text of a list; our own grader reads one entry as it, and settles no more."""
    return not graded_here and any(listed(line.get("gt_answer")) for line in lines)


def _marked_words(found: Found, suite: str, graded_now: bool) -> str:
    words = f"{found.label}: the golds of {suite} are the text of Python lists (†)"
    if graded_now:
        return (
            f"{words}; its samples were graded now against the entry of each, not in the reference's "
            "way, by which a perfect answer is right in only 141 of 200 rows."
        )
    return (
        f"{words}, against which a perfect answer is right in only 141 of 200 rows: its numbers compare "
        f"with no other's. grail eval --regrade {found.folder} mends them."
    )


def flat(settings: Mapping, prefix: str = "") -> dict[str, object]:
    """A manifest as dotted keys and plain values; lists as JSON text; long texts cut."""
    found = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float, type(None))):
            found[f"{prefix}{key}"] = value
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            found[f"{prefix}{key}"] = (
                text if len(text) <= LONGEST_SETTING else text[:LONGEST_SETTING] + " ..."
            )
    return found


def _keyed_alike(models: list[ModelResults]) -> list[ModelResults]:
    """Give a problem the same id in every model: its own, or by question text where a model has none."""
    without = {
        suite
        for model in models
        for suite, problems in model.suites.items()
        if any(not p.id for p in problems)
    }
    names = {}  # (suite, question, occurrence) -> the id shown
    for model in models:
        for suite in without & model.suites.keys():
            for row, (key, problem) in enumerate(_occurrences(model.suites[suite]), 1):
                if problem.id or (suite, *key) not in names:
                    names[suite, *key] = problem.id or f"row {row}"
    return [
        replace(
            model,
            suites={
                suite: tuple(replace(p, id=names[suite, *key]) for key, p in _occurrences(problems))
                if suite in without
                else problems
                for suite, problems in model.suites.items()
            },
        )
        for model in models
    ]


def _occurrences(problems: Sequence[Problem]) -> list[tuple[tuple[str, int], Problem]]:
    """((question, how many times it came before), problem): some suites hold a question text twice."""
    seen: dict[str, int] = {}
    keyed = []
    for problem in problems:
        count = seen.get(problem.question, 0)
        seen[problem.question] = count + 1
        keyed.append(((problem.question, count), problem))
    return keyed
