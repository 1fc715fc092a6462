"""Arithmetic problems without end: a start number, two to five operations in a row, an answer known exactly.

`Work from left to right: 37+8*2-9` is worked out a line a step and boxed (`37+8=45`, `45*2=90`, `90-9=81`).
Suite `arith` has two or three dependent steps, `arith-hard` four or five. Every value on the way lies in
1..99, so a small model can know each step by heart and still lose the thread over several. Whether a problem
may be trained on is decided by a hash of its text, so the held-out problems are disjoint from every training
set, whatever its seed.
"""

import hashlib
import random
import re
from dataclasses import dataclass
from functools import lru_cache

from ..errors import GrailError, nearest

LARGEST = 99  # every value on the way is 1..99
OPERANDS = range(2, 10)
SUITES = {"arith": (2, 3), "arith-hard": (4, 5)}  # number of steps, drawn evenly
SUITE_SIZE = 200  # problems of a held-out suite
HELD_OUT_SHARE = 0.2

LEAD = "Work from left to right: "
_QUESTION = re.compile(re.escape(LEAD) + r"(\d+)((?:[+\-*]\d+)+)")
_OPERATION = re.compile(r"([+\-*])(\d+)")


def apply(value: int, sign: str, operand: int) -> int:
    """The value after one operation."""
    if sign == "+":
        return value + operand
    if sign == "-":
        return value - operand
    return value * operand


@dataclass(frozen=True)
class Problem:
    """One problem: the start number and the operations, applied from left to right."""

    start: int
    operations: tuple[tuple[str, int], ...]  # (sign, operand)

    @property
    def question(self) -> str:
        return f"{LEAD}{self.start}" + "".join(f"{sign}{operand}" for sign, operand in self.operations)

    @property
    def values(self) -> tuple[int, ...]:
        """The start number and the value after every operation."""
        values = [self.start]
        for sign, operand in self.operations:
            values.append(apply(values[-1], sign, operand))
        return tuple(values)

    @property
    def answer(self) -> str:
        return str(self.values[-1])

    @property
    def held_out(self) -> bool:
        """Whether no training set may contain it; a property of the text alone."""
        return hashlib.sha256(self.question.encode()).digest()[0] < HELD_OUT_SHARE * 256


def parse_question(text: str) -> Problem:
    """The problem that a text asks (text around the question is allowed). Raises ValueError when there is none."""
    found = _QUESTION.search(text)
    if not found:
        raise ValueError(f"not a question of the arithmetic task: {text!r}")
    operations = tuple((sign, int(operand)) for sign, operand in _OPERATION.findall(found[2]))
    return Problem(int(found[1]), operations)


def draw_problem(rng: random.Random, steps: int) -> Problem:
    """A random problem of `steps` operations whose values all lie in 1..LARGEST."""
    start = value = rng.randint(2, LARGEST)
    operations = []
    for _ in range(steps):
        while True:
            sign, operand = rng.choice("+-*"), rng.choice(OPERANDS)
            if 1 <= apply(value, sign, operand) <= LARGEST:
                break
        value = apply(value, sign, operand)
        operations.append((sign, operand))
    return Problem(start, tuple(operations))


def draw_problems(suite: str, n: int, *, seed: int, held_out: bool = False) -> list[Problem]:
    """`n` different problems of a suite's difficulty, from one side of the fence; the same for a seed
    everywhere.

    Raises GrailError for an unknown suite.
    """
    if suite not in SUITES:
        raise GrailError(f"no arithmetic suite {suite!r}.", hint=nearest(suite, list(SUITES)),
                         kind="unknown_suite")
    rng = random.Random(f"{suite} {'held-out' if held_out else 'train'} {seed}")
    problems: dict[Problem, None] = {}
    while len(problems) < n:
        problem = draw_problem(rng, rng.choice(SUITES[suite]))
        if problem.held_out == held_out:
            problems[problem] = None
    return list(problems)


def _rows(problems: list[Problem], suite: str) -> list[dict]:
    return [{"id": f"{suite}/{i:04d}", "question": problem.question, "answer": problem.answer}
            for i, problem in enumerate(problems)]


def train_rows(suite: str = "arith", n: int = 4096, seed: int = 0) -> list[dict]:
    """Training problems as rows {id, question, answer}, none of them in any held-out suite."""
    return _rows(draw_problems(suite, n, seed=seed), f"{suite}-train")


@lru_cache
def _suite(suite: str) -> tuple[dict, ...]:
    return tuple(_rows(draw_problems(suite, SUITE_SIZE, seed=0, held_out=True), suite))


def suite_rows(suite: str = "arith") -> list[dict]:
    """The held-out suite `arith` or `arith-hard`: SUITE_SIZE rows {id, question, answer}, always the same."""
    return [dict(row) for row in _suite(suite)]
