"""What every part of the analysis passes on: a rollout, the same rollout scored, and the count of what was left out.

Nothing here needs torch or numpy at import: the figures and tables can be made from files alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SIGNS = ("all", "correct", "wrong")


@dataclass(frozen=True)
class Rollout:
    """One prompt with one completion, as token ids that were really generated (or encoded, when only text is known)."""

    id: str
    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    advantage: float | None = None
    correct: bool | None = None
    problem: str = ""
    truncated: bool = False
    encoded_from_text: bool = False
    fault: str = ""  # why it cannot be scored; empty for a usable one

    @property
    def sign(self) -> str | None:
        """`correct`, `wrong`, or None when the file does not say; a verdict counts before an advantage."""
        if self.correct is not None:
            return "correct" if self.correct else "wrong"
        if self.advantage is not None:
            return "correct" if self.advantage > 0 else "wrong"
        return None

    @property
    def signed_advantage(self) -> float:
        """The advantage, or +1 / -1 by the verdict; -1 when nothing is known (the side that every preset reweights)."""
        if self.advantage is not None:
            return self.advantage
        return 1.0 if self.correct else -1.0


@dataclass(frozen=True)
class Scored:
    """A rollout with one number a completion token (T of them) of everything that was measured.

    scores and weights as in the GRAIL specification; entropy (nats) and logprob (nats) of the policy at the same
    temperature, when they were asked for. `answer`, `content`, `boundary`, `post` hold completion indices.
    """

    rollout: Rollout
    tokens: tuple[str, ...]
    scores: np.ndarray  # (T,)
    weights: np.ndarray  # (T,)
    reweighted: bool = True
    answer: tuple[int, ...] | None = None
    content: tuple[int, ...] = ()
    boundary: tuple[int, ...] = ()
    post: tuple[int, ...] = ()
    boxes: int = 0
    entropy: np.ndarray | None = None  # (T,)
    logprob: np.ndarray | None = None  # (T,)

    @property
    def reasoning(self) -> int:
        """R, the number of tokens before the answer; 0 without an answer."""
        return self.answer[0] if self.answer else 0

    @property
    def regions(self) -> dict[str, list[int]] | None:
        if self.answer is None:
            return None
        return {"answer": list(self.answer), "content": list(self.content),
                "boundary": list(self.boundary), "post": list(self.post)}


@dataclass
class Coverage:
    """How many rollouts were read, how many carry the statistics, and why each of the others does not.

    read = usable + the sum of `left_out`; `remarks` count rollouts that stay in (truncated, several boxes, ...).
    """

    read: int = 0
    usable: int = 0
    left_out: Counter = field(default_factory=Counter)
    remarks: Counter = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, cause: str, name: str) -> None:
        self.left_out[cause] += 1
        self._example(cause, name)

    def remark(self, cause: str, name: str) -> None:
        self.remarks[cause] += 1
        self._example(cause, name)

    def _example(self, cause: str, name: str) -> None:
        names = self.examples.setdefault(cause, [])
        if len(names) < 3:
            names.append(name)

    def as_dict(self) -> dict:
        return {"read": self.read, "usable": self.usable, "left_out": dict(self.left_out),
                "remarks": dict(self.remarks), "examples": self.examples}

    @classmethod
    def from_dict(cls, doc: dict) -> Coverage:
        return cls(doc["read"], doc["usable"], Counter(doc["left_out"]), Counter(doc["remarks"]), doc["examples"])

    def sentences(self) -> list[str]:
        """One line a cause, with up to three names: what a warning shows."""
        return [f"{n} of {self.read} rollouts left out: {cause} (e.g. {', '.join(self.examples[cause])})"
                for cause, n in sorted(self.left_out.items())]


def take_coverage(scored: list[Scored], faulty: list[Rollout]) -> Coverage:
    """Counts every rollout once: usable, or left out under exactly one cause."""
    seen = Coverage(read=len(scored) + len(faulty))
    for rollout in faulty:
        seen.leave_out(rollout.fault.split(":")[0], f"{rollout.id}: {rollout.fault}" if ":" in rollout.fault
                       else rollout.id)
    for one in scored:
        name = one.rollout.id
        if one.answer is None:
            seen.leave_out("no complete box", name)
        elif one.reasoning == 0:
            seen.leave_out("answer at the first token, no reasoning", name)
        else:
            seen.usable += 1
        if one.boxes > 1:
            seen.remark("several boxes", name)
        if one.rollout.truncated:
            seen.remark("truncated", name)
        if one.rollout.encoded_from_text:
            seen.remark("ids encoded from text, not those sampled", name)
        if one.entropy is not None and one.entropy.sum() != one.entropy.sum():
            seen.remark("entropy is not a number, the model overflows", name)
        if one.rollout.sign is None:
            seen.remark("neither verdict nor advantage", name)
    return seen


def of_sign(scored: list[Scored], sign: str) -> list[Scored]:
    """The rollouts with reasoning tokens before a box, of one sign (`all`, `correct`, `wrong`)."""
    return [s for s in scored if s.reasoning and (sign == "all" or s.rollout.sign == sign)]
