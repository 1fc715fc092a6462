"""The warm-start corpus has the habits in the shares that it states, and no held-out problem."""

import random

from grail_cli.tiny.check import read_steps
from grail_cli.tiny.corpus import MIXED, examples, wrong_result
from grail_cli.tiny.task import apply, parse_question


def test_a_wrong_result_is_never_right():
    rng = random.Random(0)
    for _ in range(2000):
        value, sign, operand = rng.randint(-9, 99), rng.choice("+-*"), rng.randint(2, 9)
        assert wrong_result(rng, value, sign, operand) != apply(value, sign, operand)


def test_no_example_is_of_a_held_out_problem():
    pairs = examples(random.Random(1), 1500, MIXED)
    assert len(pairs) == 1500 and not any(parse_question(question).held_out for question, _ in pairs)


def test_slips_shortcuts_and_luck_have_the_stated_shares():
    slips = steps = shortcuts = choices = lucky = 0
    for question, solution in examples(random.Random(2), 4000, MIXED):
        problem = parse_question(question)
        lines, left = read_steps(problem, solution), len(problem.operations)
        for line in lines[:-1]:
            choices += left > 1
            if line.kind == "shortcut":
                shortcuts += 1
                lucky += not line.fault
                break
            steps += 1
            slips += line.fault == "result"
            left -= 1
        assert lines[-1].kind == "answer" and not lines[-1].fault
    assert abs(slips / steps - MIXED.slip) < 0.02
    assert abs(shortcuts / choices - MIXED.shortcut) < 0.03
    assert abs(lucky / shortcuts - MIXED.lucky) < 0.04
