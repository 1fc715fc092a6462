"""Where a solution first goes wrong, exactly: every line of a completion judged against the problem.

A line is an equation `37+8=45`. Its left side must be the value reached so far followed by the next operation
of the problem, or by several of them (a shortcut); its right side must be their result. The last line must be
the box with the value reached. Nothing is guessed: the first line that is not so is the first wrong step. A
solution without a wrong step has the right answer; a wrong step can be made good by a later one, so the
converse does not hold.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from .task import Problem, apply

if TYPE_CHECKING:
    from ..credit import TokenBytes

_EQUATION = re.compile(r"(-?\d+)((?:[+\-*]\d+)+)=(-?\d+)")
_OPERATION = re.compile(r"([+\-*])(\d+)")
_BOX = re.compile(r"\\boxed\{(-?\d+)\}")

Kind = Literal["step", "shortcut", "answer", "other"]
Fault = Literal["", "copy", "operation", "result", "early", "answer", "form"]


@dataclass(frozen=True)
class Step:
    """One line of a completion.

    start, end: characters of the completion (end exclusive, line break not counted). kind: `step` one
    operation, `shortcut` several in one line, `answer` the box, `other` neither. fault, of the line by itself
    given the lines before: `copy` the value reached is not the one written, `operation` not the problem's
    next operation, `result` the equation is false, `early` boxed before the last operation, `answer` the box
    is not the value reached, `form` cannot be read; empty when the line is right. fault_at: the character
    where it shows, -1 without a fault.
    """

    start: int
    end: int
    kind: Kind
    fault: Fault
    fault_at: int = -1


def read_steps(problem: Problem, completion: str) -> list[Step]:
    """The lines of a completion up to its box, judged one after another.

    A line is judged against the value that the lines before it wrote down, so a slip that is carried on is
    one fault, not many. Nothing after a box, or after a line that cannot be read, is judged.
    """
    steps: list[Step] = []
    value, done, at = problem.start, 0, 0
    for line in completion.split("\n"):
        start, end = at, at + len(line)
        at = end + 1
        if not line.strip():
            continue
        if box := _BOX.fullmatch(line):
            steps.append(_judge_box(box, start, end, value, done == len(problem.operations)))
            return steps
        equation = _EQUATION.fullmatch(line)
        if not equation:
            steps.append(Step(start, end, "other", "form", start))
            return steps
        steps.append(_judge_equation(equation, start, end, value, problem.operations[done:]))
        value, done = int(equation[3]), done + len(_OPERATION.findall(equation[2]))
    return steps


def _judge_box(box: re.Match, start: int, end: int, value: int, all_done: bool) -> Step:
    if not all_done:
        return Step(start, end, "answer", "early", start)
    if int(box[1]) != value:
        return Step(start, end, "answer", "answer", start + box.start(1))
    return Step(start, end, "answer", "")


def _judge_equation(equation: re.Match, start: int, end: int, value: int, ahead: tuple) -> Step:
    written = [(m, (m[1], int(m[2]))) for m in _OPERATION.finditer(equation.string, *equation.span(2))]
    kind: Kind = "step" if len(written) == 1 else "shortcut"
    if int(equation[1]) != value:
        return Step(start, end, kind, "copy", start)
    for i, (where, operation) in enumerate(written):
        if i >= len(ahead) or operation != ahead[i]:
            return Step(start, end, kind, "operation", start + where.start())
        value = apply(value, *operation)
    if int(equation[3]) != value:
        return Step(start, end, kind, "result", start + equation.start(3))
    return Step(start, end, kind, "")


def first_wrong_step(problem: Problem, completion: str) -> Step | None:
    """The first line that is wrong, or None when every line is right (an unfinished one can be, so far)."""
    return next((step for step in read_steps(problem, completion) if step.fault), None)


def token_steps(problem: Problem, completion_ids: Sequence[int], token_bytes: "TokenBytes"
                ) -> list[tuple[Step, tuple[int, ...]]]:
    """Every judged line of a sampled completion with the indices of its tokens, line breaks left out.

    The places are counted on the bytes of the ids that were sampled, so that nothing is tokenised again; a
    step's `start`, `end` and `fault_at` are then bytes, which in this task's completions are characters.
    """
    pieces = token_bytes.pieces(completion_ids)
    ends = list(accumulate(map(len, pieces)))
    text = b"".join(pieces).decode("latin-1")  # one character a byte
    return [(step, tuple(i for i, (piece, end) in enumerate(zip(pieces, ends, strict=True))
                         if end > step.start and end - len(piece) < step.end))
            for step in read_steps(problem, text)]
