"""Arms of a sweep against each other over seeds and problems: what `grail report --paired` computes.

A model whose label is `ARM-seed-N@step-M`, as the runs of a sweep are called, is one arm with one seed at one step.
All that the tables and figures need is one small JSON document (`Sweep.text`), which the command writes and reads
again, so that a published table can be computed anew from a file that fits into a repository.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import GrailError
from ..evaluation.score import pass_at_k
from ..evaluation.stats import holm
from ..files import read_json, read_jsonl
from .model import SIGNIFICANT, ModelResults, Report
from .two_level import Contrast, Interval, contrast, two_level

FORMAT = "grail-paired-1"
UNSETTLED = ("timeout", "error", "unparseable_gold")
_RUN = re.compile(r"(?P<arm>.+)-seed-(?P<seed>\d+)")


@dataclass(frozen=True)
class Entry:
    """One arm with one seed at one step on one suite: right samples of each problem, out of n."""

    arm: str
    seed: int
    step: int
    suite: str
    n: int
    right: tuple[int, ...]
    tokens: float | None = None  # mean completion length

    def accuracy(self) -> list[float]:
        """(P,) share of right samples, a problem."""
        return [right / self.n for right in self.right]

    def passed(self, k: int) -> list[float]:
        """(P,) unbiased pass@k, a problem."""
        return [float(pass_at_k(self.n, right, k)) for right in self.right]


@dataclass(frozen=True)
class Training:
    """What a run's metrics.jsonl says: rewards [(step, mean)], seconds a step, and those of them for credit."""

    arm: str
    seed: int
    rewards: tuple[tuple[int, float], ...]
    step_s: float
    credit_s: float


@dataclass(frozen=True)
class Sweep:
    """Every entry of a sweep, the model that all runs began with (suite -> accuracy), and how the runs went."""

    entries: tuple[Entry, ...]
    start: Mapping[str, float] = field(default_factory=dict)
    trainings: tuple[Training, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def arms(self) -> list[str]:
        return list(dict.fromkeys(entry.arm for entry in self.entries))

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(entry.suite for entry in self.entries))

    def at(self, arm: str, suite: str, step: int) -> dict[int, Entry]:
        """seed -> entry."""
        return {e.seed: e for e in self.entries if (e.arm, e.suite, e.step) == (arm, suite, step)}

    def steps(self, suite: str) -> list[int]:
        return sorted({e.step for e in self.entries if e.suite == suite})

    def text(self) -> str:
        """The sweep as a JSON document with a line an entry, small enough to be committed; `read_document` reads it."""
        def lines(items: list[dict]) -> str:
            return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n]"

        head = {"format": FORMAT, "notes": list(self.notes), "start": dict(self.start)}
        entries = [{**vars(e), "right": " ".join(map(str, e.right))} for e in self.entries]
        return (json.dumps(head, ensure_ascii=False)[:-1] + f', "entries": {lines(entries)}, '
                f'"trainings": {lines([vars(t) for t in self.trainings])}}}\n')


@dataclass(frozen=True)
class Row:
    """One arm on one suite at its last step; `against` is None for the baseline."""

    arm: str
    suite: str
    step: int
    seeds: int
    accuracy: Interval
    passed: Interval
    k: int
    tokens: float | None
    credit_share: float | None  # credit's seconds over the rest of the step's
    against: Contrast | None
    p_adjusted: float | None  # Holm, over the arms of the suite

    @property
    def words(self) -> str:
        """`better`, `worse`, `no difference shown`, `identical`, or nothing for the baseline."""
        if self.against is None:
            return ""
        if self.against.p is None:
            return "one seed"
        if self.against.same:
            return "identical"
        low, high = self.against.difference.low, self.against.difference.high
        if self.p_adjusted >= SIGNIFICANT or low <= 0 <= high:
            return "no difference shown"
        return "better" if low > 0 else "worse"


def read_document(path: Path) -> Sweep:
    """The sweep in a JSON file that `--paired` wrote. Raises GrailError for any other file."""
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise GrailError(f"no file of `grail report --paired` ({FORMAT}).", where=str(path), kind="bad_file")
    return Sweep(tuple(Entry(**{**e, "right": tuple(map(int, e["right"].split()))}) for e in found["entries"]), found["start"],
                 tuple(Training(**{**t, "rewards": tuple(map(tuple, t["rewards"]))}) for t in found["trainings"]),
                 tuple(found["notes"]))


def sweep_of(report: Report) -> Sweep:
    """The arms among the models of a report. Raises GrailError when there is none, or problems or samples differ."""
    entries, start, runs, notes, others = [], {}, {}, list(report.notes), []
    for model in report.models:
        found = _RUN.fullmatch(model.run) if model.step is not None else None
        if not found:
            others.append(model)
            continue
        arm, seed = found["arm"], int(found["seed"])
        runs.setdefault((arm, seed), model)
        entries += [_entry(model, arm, seed, suite) for suite in report.suites if suite in model.suites]
    if not entries:
        raise GrailError("none of the models is a run of a sweep (ARM-seed-N@step-M).", where="--paired",
                         hint="grail train --seeds 0-7 --methods grpo,grail --out RUNS, then grail eval its checkpoints.")
    for suite in report.suites:
        _same_problems([m for m in report.models if suite in m.suites], suite)
    if len(others) == 1:
        start = {suite: _mean(others[0], suite) for suite in report.suites if suite in others[0].suites}
    elif others:
        notes.append(f"left out, as no run of a sweep: {', '.join(model.label for model in others)}")
    order = {arm: i for i, arm in enumerate(dict.fromkeys(arm for arm, _ in runs))}
    entries.sort(key=lambda e: (e.suite, order[e.arm], e.seed, e.step))
    trainings = [t for (arm, seed), model in runs.items() if (t := _training(model, arm, seed))]
    return Sweep(tuple(entries), start, tuple(trainings), tuple(notes))


def rows(sweep: Sweep, baseline: str) -> list[Row]:
    """Every arm on every suite at the last step that all arms have, against the baseline.

    Raises GrailError for a baseline that is no arm, or arms without a common step.
    """
    if baseline not in sweep.arms:
        raise GrailError(f"{baseline!r} is no arm of these results.", where="--baseline",
                         hint=f"choose from {', '.join(sweep.arms)}.")
    found = []
    for suite in sweep.suites:
        ordered = sorted(sweep.arms, key=lambda arm: arm != baseline)  # the baseline first, the others as they are
        arms = [arm for arm in ordered if any(e.arm == arm and e.suite == suite for e in sweep.entries)]
        common = [step for step in sweep.steps(suite) if all(sweep.at(arm, suite, step) for arm in arms)]
        if not common or baseline not in arms:
            raise GrailError(f"the arms have no step of {suite} in common.", where="--paired",
                             hint="evaluate the same checkpoints of every run.")
        step, base = common[-1], sweep.at(baseline, suite, common[-1])
        against = {arm: _against(sweep.at(arm, suite, step), base) for arm in arms if arm != baseline}
        tested = [arm for arm, one in against.items() if one and one.p is not None]
        adjusted = dict(zip(tested, holm([against[arm].p for arm in tested]), strict=True))
        found += [_row(sweep, arm, suite, step, against.get(arm), adjusted.get(arm)) for arm in arms]
    return found


def _row(sweep: Sweep, arm: str, suite: str, step: int, against: Contrast | None, adjusted: float | None) -> Row:
    import numpy as np

    entries = list(sweep.at(arm, suite, step).values())
    k = min(e.n for e in entries)
    lengths = [e.tokens for e in entries if e.tokens is not None]
    costs = [t.credit_s / (t.step_s - t.credit_s) for t in sweep.trainings if t.arm == arm and t.step_s > t.credit_s]
    return Row(arm, suite, step, len(entries), two_level(np.array([e.accuracy() for e in entries])),
               two_level(np.array([e.passed(k) for e in entries])), k,
               sum(lengths) / len(lengths) if lengths else None, sum(costs) / len(costs) if costs else None,
               against, adjusted)


def _against(ours: Mapping[int, Entry], base: Mapping[int, Entry]) -> Contrast | None:
    import numpy as np

    seeds = sorted(ours.keys() & base.keys())
    if not seeds:
        return None
    return contrast(np.array([ours[s].accuracy() for s in seeds]), np.array([base[s].accuracy() for s in seeds]))


def _entry(model: ModelResults, arm: str, seed: int, suite: str) -> Entry:
    problems = model.suites[suite]
    sizes = {len(problem.samples) for problem in problems}
    unsettled = sum(sample.verdict in UNSETTLED for problem in problems for sample in problem.samples)
    if len(sizes) != 1 or unsettled or 0 in sizes:
        why = f"{unsettled} samples without a verdict" if unsettled else "not as many samples for every problem"
        raise GrailError(f"{suite} has {why}, so that seeds and problems cannot be paired.", where=model.folder,
                         kind="bad_data", hint="run the same grail eval again to fill them in.")
    lengths = [s.tokens for problem in problems for s in problem.samples if s.tokens is not None]
    return Entry(arm, seed, model.step, suite, sizes.pop(),
                 tuple(sum(s.verdict == "correct" for s in problem.samples) for problem in problems),
                 round(sum(lengths) / len(lengths), 2) if lengths else None)


def _same_problems(models: Sequence[ModelResults], suite: str) -> None:
    first = [problem.id for problem in models[0].suites[suite]]
    for model in models[1:]:
        if [problem.id for problem in model.suites[suite]] != first:
            raise GrailError(f"{suite} has other problems than in {models[0].label}.", where=model.folder,
                             kind="bad_data", hint="evaluate every checkpoint on the same problems (--limit).")


def _mean(model: ModelResults, suite: str) -> float:
    verdicts = [s.verdict == "correct" for problem in model.suites[suite] for s in problem.samples]
    return sum(verdicts) / len(verdicts)


def _training(model: ModelResults, arm: str, seed: int) -> Training | None:
    """The run's own record, where its folder is still beside the checkpoint that was evaluated."""
    file = Path(str(model.settings.get("model_path", ""))).parent / "metrics.jsonl"
    if not file.is_file():
        return None
    steps = read_jsonl(file)
    rewards = tuple((row["step"], round(row["reward"], 6)) for row in steps if row.get("reward") is not None)
    timed = [row for row in steps[1:] if row.get("time/step")]  # the first step loads and warms up
    if not timed:
        return None
    return Training(arm, seed, rewards, round(sum(row["time/step"] for row in timed) / len(timed), 4),
                    round(sum(row.get("time/credit", 0.0) for row in timed) / len(timed), 4))
