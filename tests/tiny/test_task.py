"""The arithmetic problems: right answers, small values, and a fence between training and held-out problems."""

import random

import pytest

from grail_cli.errors import GrailError
from grail_cli.tiny.task import (HELD_OUT_SHARE, LARGEST, SUITE_SIZE, Problem, draw_problem, draw_problems,
                                 parse_question, suite_rows, train_rows)


def by_python(problem: Problem) -> int:
    """The answer by Python's own arithmetic, with the brackets that left to right means."""
    text = str(problem.start)
    for sign, operand in problem.operations:
        text = f"({text}){sign}{operand}"
    return eval(text)  # noqa: S307 digits, signs and brackets only


@pytest.mark.parametrize("suite", ["arith", "arith-hard"])
def test_every_answer_is_what_python_calculates(suite):
    for row in suite_rows(suite) + train_rows(suite, 300):
        assert row["answer"] == str(by_python(parse_question(row["question"])))


def test_no_operation_binds_more_than_another():
    problem = Problem(3, (("+", 4), ("*", 5)))
    assert problem.question == "Work from left to right: 3+4*5"
    assert problem.values == (3, 7, 35) and problem.answer == "35"


@pytest.mark.parametrize("suite, lengths", [("arith", {2, 3}), ("arith-hard", {4, 5})])
def test_a_suite_has_the_lengths_and_values_it_promises(suite, lengths):
    problems = [parse_question(row["question"]) for row in suite_rows(suite)]
    assert len(problems) == len(set(problems)) == SUITE_SIZE
    assert {len(problem.operations) for problem in problems} == lengths
    assert all(1 <= value <= LARGEST for problem in problems for value in problem.values)
    assert {sign for problem in problems for sign, _ in problem.operations} == set("+-*")


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_training_problems_are_never_held_out_ones(seed):
    suites = ("arith", "arith-hard")
    held_out = {row["question"] for suite in suites for row in suite_rows(suite)}
    trained = {row["question"] for suite in suites for row in train_rows(suite, 2000, seed=seed)}
    assert not held_out & trained
    assert all(parse_question(question).held_out for question in held_out)
    assert not any(parse_question(question).held_out for question in trained)


def test_about_a_fifth_of_all_problems_is_held_out():
    rng = random.Random(5)
    share = sum(draw_problem(rng, 3).held_out for _ in range(4000)) / 4000
    assert abs(share - HELD_OUT_SHARE) < 0.03  # four standard errors and more


def test_a_seed_decides_the_training_problems():
    assert train_rows(n=50, seed=3) == train_rows(n=50, seed=3)
    assert train_rows(n=50, seed=3) != train_rows(n=50, seed=4)
    assert train_rows(n=50, seed=3) == train_rows(n=80, seed=3)[:50]


def test_a_suite_is_not_spoilt_by_who_reads_it():
    suite_rows("arith")[0]["answer"] = "spoilt"
    assert suite_rows("arith")[0]["answer"] != "spoilt"


def test_rows_have_identities_of_their_own():
    for rows in (train_rows(n=100), suite_rows("arith"), suite_rows("arith-hard")):
        assert len({row["id"] for row in rows}) == len(rows)
        assert all(set(row) == {"id", "question", "answer"} for row in rows)


def test_a_question_is_found_inside_a_prompt():
    problem = Problem(21, (("-", 9), ("*", 8)))
    assert parse_question(f"<|im_start|>user\n{problem.question}<|im_end|>\n") == problem


def test_a_text_without_question_is_refused():
    with pytest.raises(ValueError, match="not a question"):
        parse_question("What is 3+4?")


def test_an_unknown_suite_is_refused_with_the_nearest_name():
    with pytest.raises(GrailError) as refused:
        draw_problems("arith-had", 1, seed=0)
    assert "arith-hard" in refused.value.line()
