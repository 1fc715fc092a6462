"""The answer box: which one counts, and what is none."""

import time

import pytest

from grail_cli.evaluation.boxes import find_boxes, last_box


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{7}.", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"first \boxed{1}, then \boxed{2}", "2"),
        (r"\boxed {6}", "6"),
        (r"\fbox{6}", "6"),
        (r"\boxed 7", "7"),
        (r"\boxed{5}, marked with \boxed as asked", "5"),
        (r"\boxed{5} (within \boxed{} as asked)", "5"),
        (r"\boxed{5}" + "\n```python\nprint('\\boxed{4}')\n```", "5"),
        ("```latex\n\\boxed{4}\n```", "4"),
        (r"\boxed{\left\{1,2\right.}", r"\left\{1,2\right."),
        (r"an open \boxed{ here and then \boxed{3}", "3"),
        (r"<think>\boxed{1}</think> it is \boxed{2}", "2"),
        (r"<think>\boxed{1}</think> no box", None),
        (r"\boxed{}", None),
        (r"\boxed{ }", None),
        (r"cut off \boxed{\frac{1", None),
        ("", None),
        ("the answer is 7", None),
        ("\x08oxed{7}", "7"),
        ("boxed{7}", "7"),
    ],
)
def test_the_last_complete_box_after_the_thinking_is_the_answer(text, answer):
    assert last_box(text) == answer


def test_boxes_inside_a_box_belong_to_the_outer_one():
    assert [box.inner for box in find_boxes(r"\boxed{\boxed{1}} \boxed{2}")] == [r"\boxed{1}", "2"]


def test_a_box_says_where_it_stands():
    text = r"ab \boxed{x{y}z} cd"
    [box] = find_boxes(text)
    assert text[box.start : box.end] == r"\boxed{x{y}z}"


def test_a_megabyte_of_open_boxes_takes_linear_time():
    text = r"\boxed{" * 150_000
    start = time.process_time()
    assert last_box(text) is None
    assert time.process_time() - start < 5
