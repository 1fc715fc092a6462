"""ModelResults -> Report: every score, interval and paired difference, computed from the samples alone.

Numbers come from `evaluation.score` and `evaluation.stats`, so that a report and `eval_summary.json` cannot
disagree.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from ..errors import GrailError, nearest
from ..evaluation import stats
from ..evaluation.benchmarks import SUITES
from ..evaluation.score import majority_at_k, pass_at_k, problem_accuracy, settled
from .model import AVERAGE, WEIGHTED, Difference, Estimate, ModelResults, Report, Score

COMPARED = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_new_tokens",
    "max_tokens",
    "thinking",
    "prompt_suffix",
    "system_prompt",
    "strictness",
    "grader",
    "grader_version",
)  # last words of the settings that make two models' numbers incomparable


def tabulate(
    models: Sequence[ModelResults], baseline: str | None = None, suites: Sequence[str] | None = None
) -> Report:
    """The report of these models; with a baseline, each other model's paired difference to it.

    suites: the columns, in this order, also those that no model has; None: all there are, the paper's first.
    Raises GrailError when the baseline is none of them.
    """
    label = resolve(baseline, [model.label for model in models]) if baseline is not None else None
    if suites is None:
        present = list(dict.fromkeys(suite for model in models for suite in model.suites))
        suites = [name for name in SUITES if name in present]
        suites += [suite for suite in present if suite not in suites]
    scores = {}
    for suite in suites:
        k = min(
            (len(settled(line)) for model in models for line in model.lines.get(suite, ()) if settled(line)),
            default=0,
        )
        for model in models:
            if suite in model.suites:
                scores[model.label, suite] = _score(model, suite, k)
    differences = {}
    if label is not None:
        base = next(model for model in models if model.label == label)
        for model in models:
            if model is not base:
                differences |= _differences(model, base, suites)
    if len(suites) > 1:
        for model in models:
            scores |= _averages(model, suites, scores)
    report = Report(tuple(models), tuple(suites), scores, differences, label, ())
    return report.noted(_notes(report))


def resolve(name: str, labels: Sequence[str]) -> str:
    """The label that the name means: itself, or the only one that ends in `/name`. Raises GrailError."""
    ending = [label for label in labels if label == name or label.endswith(f"/{name}")]
    if name in labels or len(ending) == 1:
        return name if name in labels else ending[0]
    raise GrailError(
        f"no model is called {name!r}; {nearest(name, labels)}",
        where="--baseline",
        hint=f"use one of: {', '.join(labels)}.",
    )


def _score(model: ModelResults, suite: str, k: int) -> Score:
    lines = model.lines[suite]
    samples = [sample for line in lines for sample in line["generated_solutions"]]
    accuracies = [float(a) for a in map(problem_accuracy, lines) if a is not None]
    counts = [(len(settled(line)), sum(bool(s["correct"]) for s in settled(line))) for line in lines]
    passed = [float(pass_at_k(n, c, k)) for n, c in counts if n >= k] if k else []
    majority = [float(majority_at_k(votes, len(votes))) for votes in map(_votes, lines) if votes]
    tokens = [s["completion_tokens"] for s in samples if s.get("completion_tokens") is not None]
    sizes = [len(line["generated_solutions"]) for line in lines]
    return Score(
        problems=len(lines),
        fewest=min(sizes, default=0),
        most=max(sizes, default=0),
        k=k,
        acc=_estimate(accuracies),
        passed=_estimate(passed),
        majority=math.fsum(majority) / len(majority) if majority else None,
        tokens=math.fsum(tokens) / len(tokens) if tokens else None,
        samples=len(samples),
        truncated=sum(s.get("finish_reason") == "length" for s in samples),
        no_box=sum(s["verdict"] == "no_box" for s in samples),
        unscored=len(samples) - sum(n for n, _ in counts),
    )


def _votes(line: dict) -> list[tuple[object, bool]]:
    """(class of equal answers, right) a settled sample; without recorded classes the right ones are one."""
    return [
        (s.get("answer_class", "right" if s["correct"] else s.get("pred_answer")), bool(s["correct"]))
        for s in settled(line)
    ]


def _estimate(values: Sequence[float]) -> Estimate | None:
    """Mean over problems with the interval that `eval_summary.json` has: t, or exact for an all-wrong suite."""
    if not values:
        return None
    exact = stats.share_interval(values)
    return _clipped(exact if exact.se == 0 else stats.mean_interval(values))


def _clipped(found: stats.Estimate | stats.Paired, least: float = 0.0) -> Estimate:
    if found.low is None or found.high is None:
        return Estimate(found.value)
    even = abs(found.high + found.low - 2 * found.value) < 1e-9 and least <= found.low < found.high <= 1.0
    return Estimate(
        found.value,
        max(least, found.low),
        min(1.0, found.high),
        found.se,
        (found.high - found.low) / 2 if even else None,
    )


def _averages(model: ModelResults, suites: Sequence[str], scores: dict) -> dict[tuple[str, str], Score]:
    """The plain and the weighted average; none for a model that lacks a suite, as no other's compares."""
    own = [scores.get((model.label, suite)) for suite in suites]
    if any(score is None or score.acc is None for score in own):
        return {}
    made, counts = {}, [score.problems for score in own]
    for name, weights in ((AVERAGE, [1.0] * len(own)), (WEIGHTED, [float(score.problems) for score in own])):
        made[model.label, name] = Score(
            problems=sum(s.problems for s in own),
            fewest=min(s.fewest for s in own),
            most=max(s.most for s in own),
            k=0,
            acc=_average([s.acc for s in own], weights, counts),
            passed=_average([s.passed for s in own], weights, counts),
            majority=_mean([s.majority for s in own], weights),
            tokens=_mean([s.tokens for s in own], weights),
            samples=sum(s.samples for s in own),
            truncated=sum(s.truncated for s in own),
            no_box=sum(s.no_box for s in own),
            unscored=sum(s.unscored for s in own),
        )
    return made


def _average(estimates: list[Estimate | None], weights: list[float], counts: list[int]) -> Estimate | None:
    if None in estimates:
        return None
    found = [stats.Estimate(e.value, e.se, e.low, e.high) for e in estimates]
    return _clipped(stats.average(found, weights, counts=counts))


def _mean(values: list[float | None], weights: list[float]) -> float | None:
    if None in values:
        return None
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def _differences(
    model: ModelResults, base: ModelResults, suites: Sequence[str]
) -> dict[tuple[str, str], Difference]:
    """Paired differences on the suites that both have, Holm over these; then on the averages, a test each."""
    pairs = {suite: both for suite in suites if (both := _common(model, base, suite))}
    found = {
        suite: stats.paired_difference([a for a, _ in both], [b for _, b in both])
        for suite, both in pairs.items()
    }
    adjusted = stats.holm([paired.p for paired in found.values()])
    made = {
        (model.label, suite): Difference(
            paired.problems, _clipped(paired, -1.0), paired.p, p, paired.detectable
        )
        for (suite, paired), p in zip(found.items(), adjusted, strict=True)
    }
    if len(suites) > 1 and len(found) == len(suites):
        counts = [len(both) for both in pairs.values()]
        for name, weights in (
            (AVERAGE, [Fraction(1, len(suites))] * len(suites)),
            (WEIGHTED, [Fraction(count, sum(counts)) for count in counts]),
        ):
            made[model.label, name] = _average_difference(list(pairs.values()), list(found.values()), weights)
    return made


def _average_difference(pairs: list, found: list[stats.Paired], weights: list[Fraction]) -> Difference:
    """The difference of two averages: variances add; p by permutation of signs over all problems together."""
    estimate = stats.average(
        [stats.Estimate(p.value, p.se, p.low, p.high) for p in found],
        [float(w) for w in weights],
        counts=[p.problems for p in found],
    )
    shares = [
        (a - b) * weight / len(both) for both, weight in zip(pairs, weights, strict=True) for a, b in both
    ]
    p = stats.permutation_p(shares)
    count = len(shares)
    detectable = None if estimate.se is None else stats.smallest_detectable(estimate.se, count - len(found))
    return Difference(count, _clipped(estimate, -1.0), p, p, detectable)


def _common(model: ModelResults, base: ModelResults, suite: str) -> list[tuple[Fraction, Fraction]]:
    """(model's, baseline's) accuracy on each problem that both have and that is settled in both."""
    theirs = dict(zip((p.id for p in base.suites.get(suite, ())), base.lines.get(suite, ()), strict=True))
    both = []
    for problem, line in zip(model.suites.get(suite, ()), model.lines.get(suite, ()), strict=True):
        if problem.id in theirs:
            pair = problem_accuracy(line), problem_accuracy(theirs[problem.id])
            if None not in pair:
                both.append(pair)
    return both


def _notes(report: Report) -> list[str]:
    """What a reader must know before comparing two rows."""
    notes = []
    for suite in report.suites:
        missing = [model.label for model in report.models if suite not in model.suites]
        if missing:
            notes.append(f"no {suite}: {', '.join(missing)} (blank cells, no average).")
    for suite in report.suites:
        notes += _suite_notes(report, suite)
    notes += _setting_notes(report)
    for (label, suite), difference in report.differences.items():
        counts = [s.problems for s in (report.score(label, suite), report.score(report.baseline, suite)) if s]
        if suite in report.suites and difference.common < max(counts):
            notes.append(
                f"{label} and {report.baseline} share {difference.common} problems of {suite} (of "
                f"{min(counts)} and {max(counts)}); their difference is over these."
            )
    others = [label for label in report.labels if label != report.baseline]
    if report.baseline and not others:
        notes.append(f"there is no other model to compare with {report.baseline}.")
    for label in others if report.baseline else ():
        if not any(key[0] == label for key in report.differences):
            notes.append(f"{label} and {report.baseline} share no problem: no difference can be told.")
    if report.baseline and len(others) > 1:
        notes.append(
            f"{len(others)} models are compared with {report.baseline}; Holm corrects over the suites of "
            "one model, not the number of models."
        )
    return notes


def _suite_notes(report: Report, suite: str) -> list[str]:
    notes, own = [], {label: score for label in report.labels if (score := report.score(label, suite))}
    notes += [
        f"{label}: {suite} has no problem with a verdict, so its cell is blank."
        for label, score in own.items()
        if not score.acc
    ]
    for what, values in (
        ("problems", {label: score.problems for label, score in own.items()}),
        ("samples a problem", {label: score.most for label, score in own.items()}),
    ):
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{label} {value}" for label, value in values.items())
            notes.append(
                f"{suite}: models differ in {what} ({listed})"
                + ("; pass@k is at the smallest." if what != "problems" else ".")
            )
    for label, score in own.items():
        if score.fewest < score.most:
            notes.append(
                f"{label}: some problems of {suite} have {score.fewest} samples instead of {score.most}."
            )
        if score.unscored:
            notes.append(
                f"{label}: {score.unscored} of {score.samples} samples of {suite} have no verdict to count "
                "(time limit, error or unreadable gold) and are left out."
            )
    cut = {
        label: score.truncated / score.samples
        for label, score in own.items()
        if score.truncated > 0.05 * score.samples
    }
    if cut:
        listed = ", ".join(f"{label} {100 * share:.0f} %" for label, share in cut.items())
        notes.append(f"{suite}: samples cut off at the token limit: {listed}.")
    return notes


def _setting_notes(report: Report) -> list[str]:
    notes = []
    for key in dict.fromkeys(key for model in report.models for key in model.settings):
        values = {model.label: model.settings[key] for model in report.models if key in model.settings}
        if key.rsplit(".", 1)[-1] in COMPARED and len({str(value) for value in values.values()}) > 1:
            notes.append(
                f"settings differ in {key}: "
                + ", ".join(f"{label} {value}" for label, value in values.items())
                + "."
            )
    return notes
