"""Does the first wrong step get the most weight? Answerable where the truth is known: the arithmetic task.

Every line of a solution of this task can be judged exactly (tiny/check.py). In a wrong rollout whose first wrong line
lies before the box, the lines are ranked by their mean token weight; a method that finds the fault puts the first wrong
line on top. Chance is drawing a line at random; `first line` and `last line` show what the place alone would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .bootstrap import interval
from .records import Scored
from ..tiny.check import token_steps
from ..tiny.task import parse_question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUANTITIES = ("first wrong step on top", "first wrong step in the top two", "pairs ranked right")


@dataclass(frozen=True)
class Found:
    """A wrong rollout with its lines before the box: tokens of each line, and which line is the first wrong one."""

    place: int  # in the list of scored rollouts
    lines: tuple[tuple[int, ...], ...]
    wrong: int


def wrong_steps(scored: list[Scored], tokenizer: PreTrainedTokenizerBase) -> list[Found]:
    """The wrong rollouts of the arithmetic task that have at least two lines before the box and a wrong one among
    them; empty for any other task."""
    from ..credit import TokenBytes

    to_bytes, found = TokenBytes.from_tokenizer(tokenizer), []
    for place, one in enumerate(scored):
        if not one.reasoning or one.rollout.sign != "wrong":
            continue
        try:
            problem = parse_question(tokenizer.decode(list(one.rollout.prompt_ids)))
        except ValueError:
            return []
        steps = [(step, tuple(i for i in tokens if i < one.reasoning))
                 for step, tokens in token_steps(problem, one.rollout.completion_ids, to_bytes)]
        lines = [(step, tokens) for step, tokens in steps if tokens and step.kind != "answer"]
        wrong = next((i for i, (step, _) in enumerate(lines) if step.fault), None)
        if wrong is not None and len(lines) > 1:
            found.append(Found(place, tuple(tokens for _, tokens in lines), wrong))
    return found


def step_table(by_method: dict[str, list[Scored]], found: list[Found], *, draws: int, seed: int) -> list[dict]:
    """A row a method and quantity: mean over rollouts with its bootstrap interval, and what chance gives there.

    by_method: the same rollouts in the same order for every method; `found` as `wrong_steps` gives it for them.
    """
    readers = {name: [[float(np.mean(scored[f.place].weights[list(line)])) for line in f.lines] for f in found]
               for name, scored in by_method.items()}
    readers["first line"] = [[-float(i) for i in range(len(f.lines))] for f in found]
    readers["last line"] = [[float(i) for i in range(len(f.lines))] for f in found]
    rows = []
    for name, values in readers.items():
        measured = np.array([_measures(line, f.wrong) for line, f in zip(values, found, strict=True)])
        chances = np.array([(1 / len(f.lines), min(1.0, 2 / len(f.lines)), 0.5) for f in found])
        for i, quantity in enumerate(QUANTITIES):
            mean, low, high = interval(measured[:, i], draws, seed)
            rows.append({"method": name, "quantity": quantity, "mean": mean, "low": low, "high": high,
                         "chance": float(chances[:, i].mean()), "rollouts": len(found)})
    return rows


def _measures(values: list[float], wrong: int) -> tuple[float, float, float]:
    """On top, in the top two, share of the other lines below it; ties count by lot."""
    others = [value for i, value in enumerate(values) if i != wrong]
    above, equal = (sum(value > values[wrong] for value in others), sum(value == values[wrong] for value in others))
    below = len(others) - above - equal
    return (_chance_of_rank(1, above, equal), _chance_of_rank(2, above, equal), (below + equal / 2) / len(others))


def _chance_of_rank(k: int, above: int, equal: int) -> float:
    """Chance that it is among the first k, when ties are broken by lot."""
    return min(1.0, max(0.0, (k - above) / (equal + 1)))
