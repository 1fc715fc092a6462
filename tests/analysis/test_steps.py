"""The first wrong step among the weights: found where it was planted, ranked as counted by hand."""

import numpy as np
import pytest

from grail_cli.analysis.records import Rollout, Scored
from grail_cli.analysis.steps import QUANTITIES, step_table, wrong_steps
from grail_cli.models import TINY, resolve_model
from grail_cli.tiny.task import Problem

PROBLEM = Problem(7, (("+", 5), ("*", 3), ("-", 9)))


@pytest.fixture(scope="module")
def tokenizer():
    from grail_cli.models import load_tokenizer

    return load_tokenizer(resolve_model(TINY))


def scored(tokenizer, completion: str, weights=None, correct=False, question=PROBLEM.question) -> Scored:
    ids = tokenizer(completion, add_special_tokens=False).input_ids
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True,
                                           tokenize=True, return_dict=False)
    texts = [tokenizer.decode([i]) for i in ids]
    box = len(tokenizer(completion[:completion.index("\\boxed")], add_special_tokens=False).input_ids)
    numbers = np.ones(len(ids)) if weights is None else np.asarray(weights, dtype=float)
    return Scored(Rollout("r", tuple(prompt), tuple(ids), correct=correct), tuple(texts), numbers, numbers,
                  answer=tuple(range(box, len(ids))))


WRONG = "7+5=12\n12*3=26\n26-9=17\n\\boxed{17}"


def test_the_planted_step_is_found_and_right_or_boxed_faults_are_not(tokenizer):
    rollouts = [scored(tokenizer, WRONG), scored(tokenizer, "7+5=12\n12*3=36\n36-9=27\n\\boxed{27}", correct=True),
                scored(tokenizer, "7+5=12\n12*3=36\n36-9=27\n\\boxed{28}"),
                scored(tokenizer, "7+5*3-9=26\n\\boxed{26}")]
    found = wrong_steps(rollouts, tokenizer)
    assert [(f.place, len(f.lines), f.wrong) for f in found] == [(0, 3, 1)]
    assert tokenizer.decode([rollouts[0].rollout.completion_ids[i] for i in found[0].lines[1]]) == "12*3=26"


def test_another_task_has_no_known_steps(tokenizer):
    assert wrong_steps([scored(tokenizer, WRONG, question="What is 12?")], tokenizer) == []


@pytest.mark.parametrize("means, expected", [
    ((1.0, 3.0, 2.0), (1.0, 1.0, 1.0)),  # the wrong line on top of three
    ((1.0, 2.0, 3.0), (0.0, 1.0, 0.5)),
    ((3.0, 1.0, 2.0), (0.0, 0.0, 0.0)),
    ((1.0, 1.0, 1.0), (1 / 3, 2 / 3, 0.5)),  # ties by lot: chance
    ((2.0, 2.0, 1.0), (0.5, 1.0, 0.75)),
])
def test_ranks_as_counted_by_hand(tokenizer, means, expected):
    base = scored(tokenizer, WRONG)
    lines = wrong_steps([base], tokenizer)[0].lines
    weights = np.zeros(len(base.tokens))
    for line, mean in zip(lines, means, strict=True):
        weights[list(line)] = mean
    one = scored(tokenizer, WRONG, weights)
    rows = step_table({"m": [one]}, wrong_steps([one], tokenizer), draws=10, seed=0)
    got = {row["quantity"]: row for row in rows if row["method"] == "m"}
    assert [got[q]["mean"] for q in QUANTITIES] == pytest.approx(expected)
    assert [got[q]["chance"] for q in QUANTITIES] == pytest.approx((1 / 3, 2 / 3, 0.5))


def test_places_alone_are_told_beside_the_methods(tokenizer):
    one = scored(tokenizer, WRONG)
    rows = step_table({"m": [one]}, wrong_steps([one], tokenizer), draws=10, seed=0)
    on_top = {row["method"]: row["mean"] for row in rows if row["quantity"] == QUANTITIES[0]}
    assert on_top == {"m": pytest.approx(1 / 3), "first line": 0.0, "last line": 0.0}
