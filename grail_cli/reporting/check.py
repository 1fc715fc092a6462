"""`--check`: every number of `eval_summary.json` computed again from the samples, differences named."""

from collections.abc import Mapping, Sequence

from ..errors import GrailError, RunFailed
from ..evaluation.score import averages, suite_scores
from .model import AVERAGE, WEIGHTED, ModelResults

EXACT, FOREIGN = 1e-9, 5e-5  # a summary of ours; one that another program rounded
SHOWN = 20


def check_summaries(models: Sequence[ModelResults]) -> dict:
    """How many numbers were compared in which folders, when all agree.

    Raises RunFailed naming the numbers that differ, and GrailError when no folder has a summary to check.
    """
    compared, differences, without = 0, [], []
    for model in models:
        if not model.summary:
            without.append(model.label)
            continue
        count, found = check(model)
        compared += count
        differences += [f"{model.label}: {words}" for words in found]
    if differences:
        more = f" and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise RunFailed(
            f"{len(differences)} of {compared} numbers differ from the samples: "
            f"{'; '.join(differences[:SHOWN])}{more}.",
            where="--check",
            kind="check_failed",
            hint="grail eval --regrade FOLDER writes the summary anew from the samples.",
        )
    if len(without) == len(models):
        raise GrailError(
            "no folder has an eval_summary.json to check.",
            where="--check",
            kind="missing_file",
            hint="leave --check out: the report is computed from the samples.",
        )
    return {"compared": compared, "differences": 0, "without_summary": without}


def check(model: ModelResults) -> tuple[int, list[str]]:
    """(numbers compared, what differs) for one folder; what the samples say nothing about is left alone."""
    tolerance = EXACT if model.settings else FOREIGN
    summary, fresh, count, found = model.summary, {}, 0, []
    for suite in model.suites:
        old = summary.get(suite)
        if not isinstance(old, Mapping):
            found.append(f"{suite} is not in the summary")
            continue
        fresh[suite] = suite_scores(model.lines[suite], asked(old, model, suite))
        more, words = _compare(suite, old, fresh[suite], tolerance)
        count, found = count + more, found + words
        wrong = sum(
            bool(s.get("correct")) != (s["verdict"] == "correct")
            for line in model.lines[suite]
            for s in line["generated_solutions"]
        )
        if wrong:
            found.append(f"{suite}: 'correct' contradicts 'verdict' in {wrong} samples")
    found += [
        f"{suite} is in the summary but has no samples"
        for suite, old in summary.items()
        if isinstance(old, Mapping) and "samples" in old and suite not in model.suites
    ]
    sizes = {entry["n"] for entry in fresh.values()}
    if len(sizes) == 1 and len(fresh) == len(model.suites):
        for name, entry in averages(fresh, sizes.pop()).items():
            old = summary.get(name)
            if name in (AVERAGE, WEIGHTED) and isinstance(old, Mapping):
                more, words = _compare(name, old, entry, tolerance)
                count, found = count + more, found + words
    return count, found


def asked(old: Mapping, model: ModelResults, suite: str) -> int:
    """Samples a problem that the summary speaks of: its `n`, its `acc@n`, or the most that lie there."""
    named = [int(key[4:]) for key in old if key.startswith("acc@") and key[4:].isdigit()]
    return old.get("n") or max(named, default=0) or max(len(p.samples) for p in model.suites[suite])


def _compare(place: str, old: Mapping, new: Mapping, tolerance: float) -> tuple[int, list[str]]:
    count, found = 0, []
    for key in old.keys() & new.keys() if isinstance(old, Mapping) else ():
        was, now, name = old[key], new[key], f"{place} {key}"
        if isinstance(now, Mapping) and isinstance(was, Mapping):
            more, words = _compare(name, was, now, tolerance)
            count, found = count + more, found + words
            continue
        count += 1
        pairs = (
            list(zip(was, now, strict=False))
            if isinstance(was, list) and isinstance(now, list)
            else [(was, now)]
        )
        if any(not _equal(a, b, tolerance) for a, b in pairs):
            found.append(f"{name} is {was}, from the samples {now}")
    return count, sorted(found)


def _equal(was: object, now: object, tolerance: float) -> bool:
    numbers = isinstance(was, (int, float)) and isinstance(now, (int, float))
    return abs(was - now) <= tolerance if numbers else was == now
