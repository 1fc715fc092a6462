"""Scores of a suite: pass@k and maj@k against enumeration, the reference's keys, what is not counted."""

import itertools
from fractions import Fraction

import pytest

from grail_cli.evaluation.score import _runs, averages, majority_at_k, pass_at_k, suite_scores


def line(identity: str, samples: list[tuple]) -> dict:
    """A result line from (verdict, class, tokens, finish_reason) a sample."""
    return {
        "id": identity,
        "question": "q",
        "gt_answer": "1",
        "generated_solutions": [
            {
                "solution": "s",
                "pred_answer": None if verdict == "no_box" else str(group),
                "completion_tokens": tokens,
                "correct": verdict == "correct",
                "verdict": verdict,
                "answer_class": group,
                "finish_reason": reason,
                "sample": index,
            }
            for index, (verdict, group, tokens, reason) in enumerate(samples)
        ],
    }


OK, NO, NONE = ("correct", 0, 10, "stop"), ("wrong", 1, 20, "stop"), ("no_box", None, 99, "length")


@pytest.mark.parametrize(("n", "c"), [(5, 0), (5, 2), (5, 5), (8, 3)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(n, c):
    for k in range(1, n + 1):
        subsets = list(itertools.combinations([i < c for i in range(n)], k))
        assert pass_at_k(n, c, k) == Fraction(sum(any(s) for s in subsets), len(subsets))


def test_pass_at_one_is_the_accuracy_and_impossible_k_are_refused():
    assert pass_at_k(16, 4, 1) == Fraction(1, 4)
    with pytest.raises(ValueError, match="pass@4"):
        pass_at_k(3, 1, 4)


def test_a_majority_counts_classes_of_equal_answers_and_splits_ties():
    votes = [(0, True), (0, True), (1, False)]  # 1/2, 0.5, 3
    assert majority_at_k(votes, 3) == 1
    assert majority_at_k(votes, 1) == Fraction(2, 3)
    assert majority_at_k(votes, 2) == Fraction(1 + Fraction(1, 2) * 2, 3)  # {0,0} wins, two ties
    assert majority_at_k([(None, False)] * 2, 2) == 0  # no answer is no vote
    assert majority_at_k([(None, False), (0, True)], 2) == 1


def test_a_summary_has_the_references_keys_and_hand_computed_values():
    lines = [line("a", [OK, OK, NO]), line("b", [NO, NO, NONE]), line("c", [OK, NONE, NONE])]
    s = suite_scores(lines, 3)
    assert s["samples"] == 3
    assert s["acc@3"] == pytest.approx((2 / 3 + 0 + 1 / 3) / 3)
    assert s["pass@3"] == pytest.approx(2 / 3)
    assert s["pass@2"] == pytest.approx((1 + 0 + 2 / 3) / 3)
    assert s["pass@1"] == s["acc@3"]
    assert s["run_acc_mean"] == pytest.approx((2 / 3 + 1 / 3 + 0) / 3)
    assert s["run_acc_std"] == pytest.approx((2 / 27) ** 0.5)  # population, as the reference has it
    assert s["avg_tokens"] == pytest.approx(
        (10 + 10 + 20 + 20 + 20 + 99 + 10 + 99 + 99) / 9
    )  # all samples, boxed or not
    assert (s["null_count"], s["truncated"], s["failed"], s["unsettled"]) == (3, 3, 0, 0)
    assert s["maj@3"] == pytest.approx((1 + 0 + 1) / 3)


def test_unsettled_and_failed_samples_are_counted_apart_and_never_as_wrong():
    lines = [line("a", [OK, ("timeout", 1, 5, "stop"), OK]), line("b", [NO, NO])]
    s = suite_scores(lines, 3)
    assert s["acc@3"] == pytest.approx((1 + 0) / 2)
    assert (s["unsettled"], s["failed"]) == (1, 1)
    assert s["pass@3"] is None and s["coverage"] == {"pass@3": 0}
    assert s["acc_bounds"] == pytest.approx([2 / 6, 4 / 6])


def test_averages_are_plain_and_by_size():
    suites = {
        "a": suite_scores([line(str(i), [OK]) for i in range(2)], 1),
        "b": suite_scores([line(str(i), [NO]) for i in range(6)], 1),
    }
    result = averages(suites, 1)
    assert result["average"]["acc@1"] == pytest.approx(0.5)
    assert result["weighted_average"]["acc@1"] == pytest.approx(0.25)


def test_runs_go_by_the_number_of_a_sample_not_by_its_place():
    def line(*samples):
        return {"generated_solutions": [{"sample": s, "correct": right, "verdict": "correct" if right else "wrong",
                                         "completion_tokens": 1, "solution": "", "pred_answer": "1"}
                                        for s, right in samples]}

    whole = [line((0, True), (1, False)), line((0, True), (1, True))]
    assert _runs(whole, 2) == [1.0, 0.5]
    gap = [line((1, False)), line((0, True), (1, True))]  # sample 0 of the first problem failed
    assert _runs(gap, 2) == [0.5]
