"""The samples of a page: gzip blocks in base64, one for every 40 problems of a model and suite.

The browser opens a block when its problems are looked at, so that a page with tens of thousands of
completions still opens at once.
"""

import base64
import gzip
import json
from collections.abc import Iterator

from .model import ModelResults, Problem, Report, Sample

CHUNK = 40  # problems a block
LONGEST_TEXT = 40_000  # characters of a completion kept in the page
LETTERS = {"correct": "c", "wrong": "w", "no_box": "n", "timeout": "t", "error": "e", "unparseable_gold": "u"}


def blocks(report: Report) -> Iterator[str]:
    """An index a suite (problems and verdict letters), and a block for every CHUNK problems of a model."""
    for s, suite in enumerate(report.suites):
        problems: dict[str, Problem] = {}
        for model in report.models:
            for problem in model.suites.get(suite, ()):
                problems.setdefault(problem.id, problem)
        yield _block(
            f"index-{s}",
            {
                "ids": list(problems),
                "questions": [p.question for p in problems.values()],
                "golds": [p.gold for p in problems.values()],
                "verdicts": [
                    [_letters(own.get(key)) for key in problems]
                    for own in map(lambda m: _by_id(m, suite), report.models)
                ],
            },
        )
        for m, model in enumerate(report.models):
            own, keys = _by_id(model, suite), list(problems)
            for part in range(0, len(keys), CHUNK):
                rows = [
                    [packed_sample(sample) for sample in own[key].samples] if key in own else []
                    for key in keys[part : part + CHUNK]
                ]
                if any(rows):
                    yield _block(f"samples-{s}-{m}-{part // CHUNK}", rows)


def _by_id(model: ModelResults, suite: str) -> dict[str, Problem]:
    return {problem.id: problem for problem in model.suites.get(suite, ())}


def _letters(problem: Problem | None) -> str | None:
    """A letter a sample, as the page's filters read them; `l`: cut off at the token limit and not right."""
    if problem is None:
        return None
    return "".join(
        "l" if sample.finish == "length" and sample.verdict != "correct" else LETTERS.get(sample.verdict, "e")
        for sample in problem.samples
    )


def packed_sample(sample: Sample) -> dict:
    text = sample.text
    if len(text) > LONGEST_TEXT:
        half = LONGEST_TEXT // 2
        gap = f"[... {len(text) - 2 * half} characters left out here; samples.jsonl has them ...]"
        text = f"{text[:half]}\n\n{gap}\n\n{text[-half:]}"
    return {
        "s": text,
        "p": sample.pred,
        "v": sample.verdict,
        "r": sample.rule,
        "f": sample.finish,
        "t": "?" if sample.tokens is None else sample.tokens,
    }


def _block(key: str, content: object) -> str:
    packed = gzip.compress(
        json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"), compresslevel=6, mtime=0
    )
    return f'<script type="text/plain" id="{key}">{base64.b64encode(packed).decode("ascii")}</script>'
