"""What a sampler is: requests in, finished samples out, in any order. `open.opener` chooses and opens one.

A request asks for samples first .. first+count-1 of one problem. Sample j of a problem has the seed `seed_of(...) +
j`, a function of its key alone, so that batching, order and resuming change nothing.
"""

import hashlib
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sampling:
    """Every parameter of sampling, always sent explicitly. top_k 0 and min_p 0 are off; temperature 0 is greedy."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_new_tokens: int


@dataclass(frozen=True)
class Request:
    """One prompt and the samples wanted of it: `messages` for chat servers, `prompt_ids` for everything else."""

    problem_id: str
    first: int
    count: int
    seed: int  # of sample `first`
    messages: list[dict]
    prompt_ids: list[int] | None


@dataclass(frozen=True)
class Finished:
    """One sample. completion_ids hold the end token; None where the server does not tell. finish_reason:
    stop or length.
    """

    problem_id: str
    sample: int
    seed: int
    text: str
    completion_ids: list[int] | None
    completion_tokens: int | None
    finish_reason: str
    prompt_ids: list[int] | None


@dataclass(frozen=True)
class Failed:
    """A sample that could not be had, and why: it is no answer, and counted apart."""

    problem_id: str
    sample: int
    why: str


class Backend(Protocol):
    """Turns requests into samples as they finish; `about` is what the manifest keeps of it.

    done: keys (problem id, sample) that are there already and must not be yielded again.
    """

    about: dict[str, object]

    def generate(
        self, requests: list[Request], done: Set[tuple[str, int]] = frozenset()
    ) -> Iterator[Finished | Failed]: ...


def seed_of(seed: int, suite: str, problem_id: str) -> int:
    """The seed of a problem's sample 0, from the run's seed and the problem's key: 0 <= seed < 2**30."""
    digest = hashlib.sha256(f"{seed}\n{suite}\n{problem_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 2
