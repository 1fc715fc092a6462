"""The first wrong step is found exactly: by hand, and where a fault was planted."""

import random

import pytest

from grail_cli.tiny.check import first_wrong_step, read_steps, token_steps
from grail_cli.tiny.corpus import CAREFUL, MIXED, solve, wrong_result
from grail_cli.tiny.task import Problem, draw_problem

PROBLEM = Problem(7, (("+", 5), ("*", 3), ("-", 9)))  # 12, 36, 27


@pytest.mark.parametrize("completion, line, fault, shown", [
    ("7+5=12\n12*3=36\n36-9=27\n\\boxed{27}", None, "", ""),
    ("7+5*3-9=27\n\\boxed{27}", None, "", ""),  # a shortcut that is right
    ("7+5=12\n12*3-9=27\n\\boxed{27}", None, "", ""),
    ("7+5=12\n12*3=3", 1, "result", "3"),  # cut off inside a number: false as it stands
    ("7+5=12\n12*3=36", None, "", ""),  # cut off between lines: right so far
    ("", None, "", ""),
    ("7+5=13\n13*3=39\n39-9=30\n\\boxed{30}", 0, "result", "13"),
    ("7+5=12\n12*3=26\n26-9=17\n\\boxed{17}", 1, "result", "26"),
    ("7+5=12\n21*3=63\n63-9=54\n\\boxed{54}", 1, "copy", "21*3=63"),
    ("7+5=12\n12*4=48\n48-9=39\n\\boxed{39}", 1, "operation", "*4=48"),
    ("7+5=12\n12-3=9\n9-9=0\n\\boxed{0}", 1, "operation", "-3=9"),
    ("7+5=12\n12*3=36\n36-9=27\n27-9=18\n\\boxed{18}", 3, "operation", "-9=18"),
    ("7+5*3-9=26\n\\boxed{26}", 0, "result", "26"),
    ("7+5=12\n12*3=36\n36-9=27\n\\boxed{28}", 3, "answer", "28}"),
    ("7+5=12\n12*3=36\n\\boxed{36}", 2, "early", "\\boxed{36}"),
    ("\\boxed{27}", 0, "early", "\\boxed{27}"),  # the right answer, unexplained
    ("7+5=12\nso 36\n\\boxed{27}", 1, "form", "so 36"),
    ("7+5=12\n12*3=", 1, "form", "12*3="),
    ("7+5=-2\n-2*3=-6\n-6-9=-15\n\\boxed{-15}", 0, "result", "-2"),
])
def test_the_first_wrong_line_is_named_with_its_fault_and_place(completion, line, fault, shown):
    step = first_wrong_step(PROBLEM, completion)
    if line is None:
        assert step is None
        return
    assert step.fault == fault
    assert completion[:step.start].count("\n") == line
    assert completion[step.start:step.end] == completion.split("\n")[line]
    assert completion[step.fault_at:step.end].startswith(shown)


def test_a_slip_that_is_carried_on_is_one_fault():
    steps = read_steps(PROBLEM, "7+5=13\n13*3=39\n39-9=30\n\\boxed{30}")
    assert [step.fault for step in steps] == ["result", "", "", ""]
    assert [step.kind for step in steps] == ["step", "step", "step", "answer"]


def test_two_slips_are_two_faults_and_may_make_each_other_good():
    steps = read_steps(PROBLEM, "7+5=13\n13*3=36\n36-9=27\n\\boxed{27}")
    assert [step.fault for step in steps] == ["result", "result", "", ""]


def test_nothing_after_the_box_is_judged():
    assert len(read_steps(PROBLEM, "7+5*3-9=27\n\\boxed{27}\nnonsense")) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_slip_is_found_where_it_was_planted(seed):
    rng = random.Random(seed)
    for _ in range(50):
        problem = draw_problem(rng, rng.randint(2, 5))
        planted = rng.randrange(len(problem.operations))
        value, lines = problem.start, []
        for i, (sign, operand) in enumerate(problem.operations):
            right = {"+": value + operand, "-": value - operand, "*": value * operand}[sign]
            result = wrong_result(rng, value, sign, operand) if i == planted else right
            lines.append(f"{value}{sign}{operand}={result}")
            value = result
        completion = "\n".join([*lines, f"\\boxed{{{value}}}"])
        step = first_wrong_step(problem, completion)
        assert completion[step.start:step.end] == lines[planted]
        assert step.fault == "result" and completion[step.fault_at:step.end] == lines[planted].split("=")[1]


def test_a_solution_without_a_wrong_step_has_the_right_answer():
    rng, clean, right = random.Random(1), 0, 0
    for _ in range(500):
        problem = draw_problem(rng, 3)
        completion = solve(rng, problem, MIXED)
        answered = completion.endswith(f"\\boxed{{{problem.answer}}}")
        right += answered
        if first_wrong_step(problem, completion) is None:
            clean += 1
            assert answered
    assert 0 < clean <= right < 500


def test_careful_solutions_have_no_wrong_step():
    rng = random.Random(2)
    for _ in range(200):
        problem = draw_problem(rng, rng.randint(2, 5))
        steps = read_steps(problem, solve(rng, problem, CAREFUL))
        assert [step.kind for step in steps] == ["step"] * len(problem.operations) + ["answer"]
        assert not any(step.fault for step in steps)


class Bytes:
    """Token bytes of a made-up vocabulary: id -> bytes."""

    def __init__(self, *pieces: bytes):
        self._pieces = pieces

    def pieces(self, ids):
        return [self._pieces[i] for i in ids]


def test_the_tokens_of_a_line_are_those_that_overlap_it():
    vocabulary = Bytes(b"7", b"+5", b"=1", b"3\n1", b"3*3", b"=39", b"\n", b"", b"39-9=30")
    found = token_steps(PROBLEM, [0, 1, 2, 3, 4, 5, 6, 8, 7], vocabulary)
    assert [step.fault for step, _ in found] == ["result", "", ""]
    assert [tokens for _, tokens in found] == [(0, 1, 2, 3), (3, 4, 5), (7,)]


def test_bytes_that_are_no_text_do_not_move_the_places():
    vocabulary = Bytes(b"7+5=12", b"\n", b"\xff\xe2", b"\n", b"12*3=36")
    found = token_steps(PROBLEM, [0, 1, 2, 3, 4], vocabulary)
    assert [(step.fault, tokens) for step, tokens in found] == [("", (0,)), ("form", (2,))]
