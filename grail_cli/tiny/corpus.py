"""What the tiny model reads before reinforcement learning: solutions that are careful, careless or cut short.

A pre-trained model knows good and bad habits, and reinforcement learning chooses between them. The corpus
gives the tiny model the same choice. A careful solution writes every step. A slip (SLIP of the steps) writes
a wrong result and carries it on. A shortcut does all that is left in one line, and its result is right one
time in four.
"""

import random
from dataclasses import dataclass

from .task import Problem, apply, draw_problem


@dataclass(frozen=True)
class Habits:
    """Shares of the habits in the corpus."""

    slip: float = 0.12  # of the steps written out
    shortcut: float = 0.45  # of the lines at which more than one operation is left
    lucky: float = 0.25  # of the shortcuts that have the right result
    steps: tuple[int, ...] = (2, 3, 3, 4, 5)  # drawn evenly


CAREFUL = Habits(slip=0.0, shortcut=0.0)
MIXED = Habits()


def wrong_result(rng: random.Random, value: int, sign: str, operand: int) -> int:
    """A result as a careless person gets it: one off, a ten forgotten, or the wrong multiple; never the right one."""
    right = apply(value, sign, operand)
    near = [right - 1, right + 1, right - 10, right + 10]
    if sign == "*":
        near += [right - value, right + value]
    return rng.choice([n for n in near if n != right])


def solve(rng: random.Random, problem: Problem, habits: Habits) -> str:
    """A solution of a problem with the habits' slips and shortcuts, in lines, ending with its box."""
    value, lines, left = problem.start, [], list(problem.operations)
    while left:
        if len(left) > 1 and rng.random() < habits.shortcut:
            result = value
            for operation in left:
                result = apply(result, *operation)
            if rng.random() >= habits.lucky:
                result += rng.choice([-1, 1]) * rng.randint(1, 9)
            lines.append(str(value) + "".join(f"{s}{n}" for s, n in left) + f"={result}")
            value, left = result, []
            continue
        sign, operand = left.pop(0)
        result = apply(value, sign, operand)
        if rng.random() < habits.slip:
            result = wrong_result(rng, value, sign, operand)
        lines.append(f"{value}{sign}{operand}={result}")
        value = result
    return "\n".join([*lines, f"\\boxed{{{value}}}"])


def examples(rng: random.Random, n: int, habits: Habits) -> list[tuple[str, str]]:
    """`n` pairs (question, solution), none of a held-out problem."""
    pairs = []
    while len(pairs) < n:
        problem = draw_problem(rng, rng.choice(habits.steps))
        if not problem.held_out:
            pairs.append((problem.question, solve(rng, problem, habits)))
    return pairs
