"""Verdicts by kind of answer, the judged cases of the field, ideal answers, and what is unsettled."""

import json

import pytest

from grail_cli.evaluation.benchmarks import PAPER, load_suite
from grail_cli.evaluation.boxes import last_box
from grail_cli.evaluation.grade import Grader
from grail_cli.evaluation.grading import gold_check
from grail_cli.evaluation.judge import judge, listed, load_library
from tests.evaluation.kinds import CASES


def verdict(gold: str, answer: str, strictness: str) -> str:
    decision = judge(gold, answer, strictness)
    return (decision or load_library()(gold, answer, strictness))[0]


@pytest.mark.parametrize("strictness", ["lenient", "strict"])
@pytest.mark.parametrize("kind", CASES)
def test_answers_of_every_kind_are_judged_as_by_hand(kind, strictness):
    wrong = [
        (gold, answer)
        for gold, answer, right in CASES[kind]
        if (verdict(gold, answer, strictness) == "correct") != right
    ]
    assert wrong == []


@pytest.mark.parametrize("strictness", ["lenient", "strict"])
def test_all_undebatable_cases_of_the_field_are_right(shared, strictness):
    cases = [json.loads(line) for line in (shared / "grader_cases.jsonl").read_text().splitlines()]
    sure = [case for case in cases if not case["debatable"]]
    assert len(sure) > 400
    wrong = [
        case["id"]
        for case in sure
        if (
            (answer := last_box(case["completion"])) is not None
            and verdict(case["gold"], answer, strictness) == "correct"
        )
        != case["correct"]
    ]
    assert wrong == []


def test_every_verdict_names_its_rule(shared):
    for line in (shared / "grader_cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        decision = judge(case["gold"], last_box(case["completion"]) or "x")
        assert decision is None or (
            decision[0] in ("correct", "wrong", "timeout", "unparseable_gold") and decision[1]
        )


@pytest.mark.slow
def test_a_gold_in_a_box_is_right_on_every_row_of_the_six_suites(shared):
    with Grader(workers=2) as grader:
        bad = {suite: gold_check(load_suite(suite, str(shared / "bench"))[1], grader) for suite in PAPER}
    assert bad == {suite: [] for suite in PAPER}


@pytest.mark.parametrize(
    ("gold", "answer", "lenient", "strict"),
    [
        ("37\\%", "37", True, False),
        ("33.3", "\\frac{100}{3}", True, False),
        ("(2,5)", "2,5", True, False),
        ("63_8", "63", True, False),
        ("0.25", "0,25", True, False),
        ("45\\text{ minutes}", "\\frac34\\text{ hours}", True, False),
        ("2:3", "4:6", True, False),
        ("\\frac13", "0.333333", True, False),
        ("0.5", "0.51", False, False),
        ("\\frac23", "0.67", False, False),
        ("(-2,3)", "\\{-2,3\\}", False, False),
    ],
)
def test_strictness_decides_only_what_is_debatable(gold, answer, lenient, strict):
    assert (verdict(gold, answer, "lenient") == "correct", verdict(gold, answer, "strict") == "correct") == (
        lenient,
        strict,
    )


def test_a_gold_that_is_no_answer_is_unparseable_and_never_right():
    assert judge("???", "5")[0] == "unparseable_gold"
    assert judge(" ", "5")[0] == "unparseable_gold"


def test_an_answer_beyond_the_limits_is_unsettled_where_nothing_excludes_it():
    assert judge("2^{n}", "9^{9^{9^{9}}}")[0] == "timeout"
    assert judge("12", "9^{9^{9^{9}}}") == ("wrong", "beyond the limits")
    assert judge("9^{9^{9^{9}}}", "9^{9^{9^{9}}}")[0] == "correct"


def test_the_library_is_asked_only_about_formulas_with_the_same_ingredients():
    assert judge(r"\weird{a}{b}@c", "7") is not None
    assert judge("x @ y + 1", "1 + x @ y") is None


@pytest.mark.parametrize("answer", ["=", "==", "= =", "~", "x==", "(=)", r"\approx"])
def test_a_relation_with_nothing_behind_it_is_a_wrong_answer_and_no_error(answer):
    assert judge("90", answer)[0] == "wrong"


@pytest.mark.parametrize(
    ("gold", "entries"),
    [
        ("['$2$']", ["$2$"]),
        ("[\"a\", 'b']", ["a", "b"]),
        ("[1, 2]", None),
        ("['open", None),
        ("[2, 3)", None),
        (27.0, None),
        ("['a', 1]", None),
        ("[]", None),
        (None, None),
        ("7", None),
    ],
)
def test_only_the_text_of_a_list_of_texts_counts_as_one(gold, entries):
    assert listed(gold) == entries


@pytest.mark.parametrize(("gold", "answer"), [("['7', '8']", "7"), ("['7', '8']", "7, 8"), ('["a", "b", "c"]', "a")])
def test_a_gold_of_several_answers_settles_nothing_and_is_never_a_wrong_answer(gold, answer):
    assert judge(gold, answer) == ("unparseable_gold", "gold is a list of several answers")
    assert judge(gold, gold) == ("correct", "string")
    assert judge("['7']", "7")[0] == "correct" and judge("['7']", "8")[0] == "wrong"


def test_every_gold_of_olympiadbench_is_a_list_of_one_answer(shared):
    rows = [json.loads(line) for line in (shared / "bench" / "olympiadbench.jsonl").read_text().splitlines()]
    assert len(rows) == 675 and all(len(row["final_answer"]) == 1 for row in rows)
    assert all(len(listed(str(row["final_answer"]))) == 1 for row in rows)
