"""Verdicts for the samples of a suite: correct or not, which rule, and which samples give equal answers (for
maj@k).
"""

import re
from collections.abc import Callable, Sequence

from .benchmarks import Problem
from .grade import Grader

MAX_CLASSES = 24  # different wrong answers of one problem that are compared with one another


def grade_samples(
    problems: Sequence[Problem],
    samples: dict[tuple[str, int], dict],
    grader: Grader,
    done: Callable[[int], None] | None = None,
) -> None:
    """Fill in pred_answer, correct, verdict, rule and answer_class of every sample, in place.

    answer_class: 0 for right answers, 1, 2, ... for wrong ones by order of first appearance, None for no
    answer.
    """
    golds = {problem.id: problem.gold for problem in problems}
    keys = [key for key in sorted(samples) if key[0] in golds]
    verdicts = grader.grade([(golds[key[0]], samples[key].get("solution") or "") for key in keys], done)
    for key, verdict in zip(keys, verdicts, strict=True):
        samples[key] |= {
            "pred_answer": verdict.pred,
            "correct": verdict.correct,
            "verdict": verdict.verdict,
            "rule": verdict.rule,
        }
    by_problem: dict[str, list[dict]] = {}
    for key in keys:
        by_problem.setdefault(key[0], []).append(samples[key])
    _classify(list(by_problem.values()), grader)


def _classify(groups: list[list[dict]], grader: Grader) -> None:
    """Number the classes of equal answers of each problem's samples."""
    answers = [
        list(
            dict.fromkeys(
                s["pred_answer"] for s in group if not s["correct"] and s["pred_answer"] is not None
            )
        )
        for group in groups
    ]
    pairs = [
        (wrong[i], wrong[j])
        for wrong in answers
        for j in range(min(len(wrong), MAX_CLASSES))
        for i in range(j)
    ]
    equal = iter(grader.grade_answers(pairs))
    for group, wrong in zip(groups, answers, strict=True):
        classes: dict[str, int] = {}
        for j, answer in enumerate(wrong):
            found = None
            for i in range(j if j < MAX_CLASSES else 0):
                same = next(equal).correct
                if same and found is None:
                    found = classes[wrong[i]]
            classes[answer] = found if found is not None else max(classes.values(), default=0) + 1
        for sample in group:
            answer = sample["pred_answer"]
            sample["answer_class"] = 0 if sample["correct"] else None if answer is None else classes[answer]


def gold_check(problems: Sequence[Problem], grader: Grader) -> list[dict]:
    """Rows whose gold is not right when it is itself the answer: [{id, gold, verdict, rule}].

    Each gold is judged as an ideal answer (in a box) and bare, without the dollar signs around it.
    """
    pairs = [(problem.gold, rf"\boxed{{{problem.gold}}}") for problem in problems]
    bare = [(problem.gold, r"\boxed{" + re.sub(r"(?<!\\)\$", "", problem.gold) + "}") for problem in problems]
    verdicts = grader.grade(pairs + bare)
    found = []
    for problem, boxed, plain in zip(
        problems, verdicts[: len(problems)], verdicts[len(problems) :], strict=True
    ):
        bad = next((verdict for verdict in (boxed, plain) if not verdict.correct), None)
        if bad:
            found.append(
                {
                    "id": problem.id,
                    "gold": problem.gold,
                    "verdict": bad.verdict,
                    "rule": bad.rule,
                    "as": "ideal answer" if bad is boxed else "bare gold",
                }
            )
    return found
