"""Rewards that cannot lie or hang: graded in worker processes, with every verdict counted.

1.0 for correct, 0.0 for wrong or no box; a rollout that could not be graded (timeout, error, unparseable
gold, a reward that is not finite) is unscored: NaN, which TRL keeps out of the group's mean and gives no
advantage.
"""

import importlib
import math
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from ..errors import GrailError

VERDICTS = ("correct", "wrong", "no_box", "unparseable_gold", "timeout", "error")
SCORES = {"correct": 1.0, "wrong": 0.0, "no_box": 0.0}
SCORED = "scored"  # a reward of the user's own, which knows no verdict


class MathReward:
    """TRL reward function around `grail_cli.evaluation.grade.Grader`, which outlives the steps.

    `last()` gives (reward or None, verdict) of the newest batch; `log_metric` receives the share of every
    verdict.
    """

    __name__ = "math"

    def __init__(self, grader):
        self.grader = grader
        self._last: list[tuple[float | None, str]] = []

    def __call__(self, prompts, completions, gold, log_metric, **columns) -> list[float | None]:
        verdicts = self.grader.grade(list(zip(gold, map(completion_text, completions), strict=True)))
        self._last = [(SCORES.get(found.verdict), found.verdict) for found in verdicts]
        count_verdicts(self._last, VERDICTS, log_metric)
        return [score for score, _ in self._last]

    def last(self) -> list[tuple[float | None, str]]:
        return self._last


class OwnReward:
    """TRL reward function around a function of the user's.

    It is called as f(prompts=, completions=, gold=, completion_ids=, **columns) with plain texts and returns
    a number or None a completion. What is not finite is unscored and counted, never trained on.
    """

    def __init__(self, function: Callable, name: str):
        self.function, self.__name__ = function, name
        self._last: list[tuple[float | None, str]] = []

    def __call__(
        self, prompts, completions, log_metric, trainer_state=None, log_extra=None, **columns
    ) -> list[float | None]:  # TRL's own extras are named here, so that they are not handed on as columns
        texts = [completion_text(completion) for completion in completions]
        rewards = list(self.function(prompts=prompts, completions=texts, **columns))
        if len(rewards) != len(texts):
            raise GrailError(
                f"returned {len(rewards)} rewards for {len(texts)} completions.",
                where=f"train.reward {self.__name__}",
                hint="return one number or None a completion, in their order.",
            )
        kept = [float(reward) if reward is not None and math.isfinite(reward) else None for reward in rewards]
        self._last = [(reward, "error" if reward is None else SCORED) for reward in kept]
        count_verdicts(self._last, (SCORED, "error"), log_metric)
        return kept

    def last(self) -> list[tuple[float | None, str]]:
        return self._last


def count_verdicts(graded: list[tuple[float | None, str]], names: tuple[str, ...], log_metric) -> None:
    """Log the share of every verdict, zero included, so that all ranks log the same keys."""
    counts = Counter(verdict for _, verdict in graded)
    for name in names:
        log_metric(f"verdicts/{name}", counts[name] / max(len(graded), 1))


def completion_text(completion: str | list[dict]) -> str:
    """The text of a completion that TRL hands over as text or as one assistant message."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def own_function(spec: str) -> Callable:
    """Import `module:function`, also from the working folder. Raises GrailError that says which part is missing."""
    name, _, attribute = spec.partition(":")
    if not attribute:
        raise GrailError(f"{spec!r} is neither 'math' nor module:function.", where="train.reward",
                         hint="write it as package.module:function.")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise GrailError(f"{name!r} cannot be imported: {error}.", where="train.reward",
                         hint="give a module of the working folder or of an installed package.") from error
    if not callable(getattr(module, attribute, None)):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise GrailError(
            f"{name} has no function {attribute!r}; it has {', '.join(known) or 'none'}.",
            where="train.reward",
            hint=f"name one of its functions: {name}:FUNCTION.",
        )
    return getattr(module, attribute)


def trial_call(spec: str, row: dict) -> None:
    """Call a reward of the user's once, on one problem and one boxed answer. Raises GrailError when it does
    not answer.
    """
    function = own_function(spec)
    columns = {name: [value] for name, value in row.items()}
    try:
        with redirect_stdout(sys.stderr):  # what it prints is not the result of the command
            answer = list(function(prompts=[str(row["problem"])], completions=[r"\boxed{0}"], completion_ids=[[0]],
                                   **columns))
        good = len(answer) == 1 and (answer[0] is None or math.isfinite(answer[0]))
    # foreign code: whatever it raises is a fault of the setting, found before training
    except Exception as error:
        raise GrailError(
            f"{spec} raised {type(error).__name__}: {error} on one example.",
            where="train.reward",
            hint=f"it is called with prompts, completions, completion_ids and {', '.join(columns)}.",
        ) from error
    if not good:
        raise GrailError(
            f"{spec} returned {answer!r} for one completion, where one finite number or None is needed.",
            where="train.reward",
            hint="return a list with one number or None a completion.",
        )
