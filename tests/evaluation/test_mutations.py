"""Every gold of the six suites, rewritten and spoilt: what says the same is right, what nearly does is wrong."""

import random

import pytest

from grail_cli.evaluation.benchmarks import PAPER, load_suite
from grail_cli.evaluation.grade import Grader
from tests.benchmarks.grader_mutations import near_misses, rewritings


@pytest.mark.slow
def test_every_rewriting_of_every_gold_is_right_and_every_near_miss_wrong(shared):
    rng, wanted = random.Random(0), {}
    for suite in PAPER:
        for problem in load_suite(suite, str(shared / "bench"))[1]:
            wanted |= {(problem.gold, answer): True for answer in rewritings(problem.gold)}
            wanted |= {(problem.gold, answer): False for answer in near_misses(problem.gold, rng)}
    assert sum(wanted.values()) > 8_000 and len(wanted) - sum(wanted.values()) > 8_000  # equal golds count once
    with Grader(workers=2) as grader:
        verdicts = grader.grade_answers(list(wanted))
    wrong = [(pair, v.verdict, v.rule) for pair, v in zip(wanted, verdicts, strict=True) if v.correct != wanted[pair]]
    assert wrong == []
