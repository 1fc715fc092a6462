"""What an evaluation finds in its folder: the samples that are there, how many are missing, and what must not mix."""

from collections.abc import Mapping
from typing import NamedTuple

from ..console import Console
from ..errors import GrailError
from .benchmarks import Problem
from .store import Key, ResultsFolder, SuiteFolder


class Waiting(NamedTuple):
    """A suite that is not finished: its folder, its samples by (problem id, sample index), how many are missing."""

    place: SuiteFolder
    have: dict[Key, dict]
    missing: int


def find_missing(
    folder: ResultsFolder, suites: Mapping[str, list[Problem]], n: int, console: Console
) -> dict[str, Waiting]:
    """The suites that are not finished. Raises GrailError for another question under an id, or more than is asked."""
    waiting = {}
    for suite, problems in suites.items():
        place = folder.suite(suite)
        place.claim(problems)
        have = place.load()
        if place.mended:
            console.warn(f"{suite}: a torn last line of the journal was cut off; that sample is made again.")
        _check_size(have, problems, n, place)
        missing = sum((problem.id, sample) not in have for problem in problems for sample in range(n))
        if missing:
            waiting[suite] = Waiting(place, have, missing)
    return waiting


def settle_mix(folder: ResultsFolder, kind: str, *, new: bool, mix: bool) -> bool:
    """Whether samples of other kinds of backend were moved aside (`new`), because `kind` is about to add to them.

    Equal seeds give other samples there, and numbers differ by rounding: raises GrailError unless `mix`.
    """
    others = sorted(folder.kinds() - {kind})
    if not others or mix:
        return False
    if not new:
        raise GrailError(
            f"holds samples of other settings: backend was {', '.join(others)}, now {kind}.",
            where=str(folder.folder),
            kind="settings_differ",
            hint="use the same --backend, another --out, --new to move the old results aside, or --mix-backends.",
        )
    folder.begin_again()
    return True


def _check_size(have: dict[Key, dict], problems: list[Problem], n: int, place: SuiteFolder) -> None:
    """Growing n or the limit keeps what is there; shrinking would throw samples away, so it is refused."""
    names = {problem.id for problem in problems}
    most = 1 + max((sample for _, sample in have), default=-1)
    more = len({identity for identity, _ in have} - names)
    if most > n or more:
        what = (
            f"{most} samples a problem, more than the {n} asked for"
            if most > n
            else f"{more} problems beyond those asked for"
        )
        raise GrailError(
            f"holds {what}.",
            where=str(place.folder),
            kind="settings_differ",
            hint="ask for as many or more (--n, --limit), or choose another --out.",
        )
