"""Verdicts with reasons: `Grader.grade` judges the last box of each completion against its gold answer.

The judging itself (`judge.py`) happens in worker processes with hard limits of CPU time and memory, so that no answer
can hang, fill or crash the program that asks, from any thread. Equal (gold, answer) pairs are judged once.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from ..errors import GrailError
from .boxes import last_box
from .pool import Pool, killed_by_cpu_limit

GRADER_VERSION = "2"  # part of a result's fingerprint: raise it when a verdict can change
CACHE_SIZE = 200_000
VERDICTS = ("correct", "wrong", "no_box", "unparseable_gold", "timeout", "error")
UNSETTLED = ("unparseable_gold", "timeout", "error")
STRICTNESS = ("lenient", "strict")


@dataclass(frozen=True)
class Verdict:
    """verdict: a word of VERDICTS; rule: what decided; pred: the box's content or None; seconds: CPU time."""

    verdict: str
    correct: bool
    rule: str
    pred: str | None
    seconds: float

    def as_json(self) -> dict:
        """The fields as a plain object."""
        return asdict(self)


class Grader:
    """A pool of grading workers and a cache; a context manager, usable from several threads.

    strictness: `lenient` (units left out, exact value for a rounded gold, ... are accepted) or `strict`. cpu_s: CPU
    seconds that one answer may take; memory_mb: address space of a worker. Raises GrailError for settings out of
    range.
    """

    def __init__(
        self,
        workers: int = 2,
        strictness: str = "lenient",
        *,
        cpu_s: float = 2.0,
        memory_mb: int = 1024,
        cache: bool = True,
    ):
        if workers < 1:
            raise GrailError(f"workers must be at least 1, not {workers}.", where="grader")
        if strictness not in STRICTNESS:
            raise GrailError(
                f"strictness {strictness!r} is unknown; allowed: {', '.join(STRICTNESS)}.",
                where="eval.strictness",
            )
        self.strictness = strictness
        self._pool = Pool(workers, {"cpu_s": cpu_s, "memory_mb": memory_mb}, _lost)
        self._cache: OrderedDict[tuple[str, str], list] | None = OrderedDict() if cache else None

    def grade(
        self, pairs: Iterable[tuple[object, str]], done: Callable[[int], None] | None = None
    ) -> list[Verdict]:
        """Judge (gold, completion) pairs; the verdicts come in the same order.

        gold: text (a number is taken as its text; None or blank is an unparseable gold). done(n): called as
        verdicts come in.
        """
        return self.grade_answers([(gold, last_box(completion or "")) for gold, completion in pairs], done)

    def grade_answers(
        self, pairs: Iterable[tuple[object, str | None]], done: Callable[[int], None] | None = None
    ) -> list[Verdict]:
        """Judge (gold, answer) pairs whose answers are already out of their boxes; None is no answer."""
        pairs = [(_gold_text(gold), answer) for gold, answer in pairs]
        known, tasks = {}, []
        for key in pairs:
            if key in known:
                continue
            gold, answer = key
            if not gold:
                known[key] = ["unparseable_gold", "gold is empty", 0.0]
            elif answer is None:
                known[key] = ["no_box", "no box", 0.0]
            elif self._cache is not None and key in self._cache:
                self._cache.move_to_end(key)
                known[key] = [*self._cache[key][:2], 0.0]
            else:
                known[key] = None
                tasks.append(key)
        for key, answer in zip(
            tasks, self._pool.run([[*key, self.strictness] for key in tasks], done), strict=True
        ):
            known[key] = answer
            if self._cache is not None and answer[0] not in ("timeout", "error"):
                self._cache[key] = answer
                if len(self._cache) > CACHE_SIZE:
                    self._cache.popitem(last=False)
        return [
            Verdict(known[key][0], known[key][0] == "correct", known[key][1], key[1], known[key][2])
            for key in pairs
        ]

    def close(self) -> None:
        """End the workers; a later grade starts them again."""
        self._pool.close()

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *exc) -> None:
        self.close()


def _gold_text(gold: object) -> str:
    """A gold as text: 27.0 -> '27.0', a one-item list -> its item, None -> ''."""
    if isinstance(gold, list | tuple) and len(gold) == 1:
        gold = gold[0]
    text = "" if gold is None else str(gold)
    return "" if not re.sub(r"[\s$.,;:]+", "", text) else text


def _lost(code: int) -> list:
    """The answer for a task whose worker died: out of CPU time by the kernel's limit, or an error."""
    return (
        ["timeout", "limit of CPU time", 0.0]
        if killed_by_cpu_limit(code)
        else ["error", f"worker died ({'signal ' + str(-code) if code < 0 else 'exit ' + str(code)})", 0.0]
    )
