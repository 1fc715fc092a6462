"""Scores and differences against numbers worked out by hand, by enumeration or by scipy."""

import itertools
import math

import pytest
from scipy import stats as scipy_stats

from grail_cli.errors import GrailError
from grail_cli.reporting.collect import collect
from grail_cli.reporting.model import AVERAGE, WEIGHTED
from grail_cli.reporting.tables import resolve, tabulate

from . import folders


def made(tmp_path, baseline=None, **models):
    """A report of models given as suite -> words."""
    for label, suites in models.items():
        folders.ours(tmp_path / label, suites)
    told = []
    return tabulate(collect([tmp_path], None, told.append), baseline)


def test_accuracy_pass_and_majority_are_those_worked_out_by_hand(tmp_path):
    report = made(tmp_path, a={"amc23": ["ccc", "cww", "wwn", "ccw"]})
    score = report.score("a", "amc23")
    assert score.acc.value == pytest.approx((1 + 1 / 3 + 0 + 2 / 3) / 4)
    assert score.passed.value == pytest.approx(3 / 4) and score.k == 3
    assert score.majority == pytest.approx(2 / 4)  # ccc and ccw; cww votes 8
    assert (score.problems, score.samples, score.no_box, score.truncated, score.unscored) == (4, 12, 1, 1, 0)
    assert score.tokens == pytest.approx(101)  # 100, 101, 102 a problem
    assert (report.acc_name("amc23"), report.pass_name("amc23"), report.columns) == (
        "acc@3",
        "pass@3",
        ["amc23"],
    )


def test_the_interval_is_students_over_problems(tmp_path):
    words = ["ccc", "cww", "wwn", "ccw", "ccc", "cww"] * 5
    acc = made(tmp_path, a={"amc23": words}).score("a", "amc23").acc
    shares = [word.count("c") / 3 for word in words]
    low, high = scipy_stats.t.interval(
        0.95, len(shares) - 1, math.fsum(shares) / len(shares), scipy_stats.sem(shares)
    )
    assert (acc.low, acc.high) == (pytest.approx(low), pytest.approx(high))
    assert acc.margin == pytest.approx((high - low) / 2)


def test_an_interval_never_leaves_what_a_share_can_be(tmp_path):
    acc = made(tmp_path, a={"amc23": ["ccc", "ccc", "www"]}).score("a", "amc23").acc
    assert (acc.low, acc.high) == (0.0, 1.0) and acc.margin is None
    assert acc.spread == "(0.0..100.0)"  # never a ± around a value that is not the middle


def test_models_with_different_n_meet_at_the_smallest_k_and_a_note_says_so(tmp_path):
    report = made(tmp_path, a={"amc23": ["cw", "ww"]}, b={"amc23": ["cwww", "ccww"]})
    assert report.pass_name("amc23") == "pass@2" and report.acc_name("amc23") == "acc@2-4"
    # of the 6 pairs among 4 samples, 3 hold the one right sample; 5 hold one of the two
    assert report.score("b", "amc23").passed.value == pytest.approx((3 / 6 + 5 / 6) / 2)
    assert any("models differ in samples a problem (a 2, b 4)" in note for note in report.notes)


def test_unsettled_samples_are_left_out_and_counted(tmp_path):
    report = made(tmp_path, a={"amc23": ["ctt", "ccw"]})
    score = report.score("a", "amc23")
    assert score.acc.value == pytest.approx((1 + 2 / 3) / 2) and score.unscored == 2 and score.k == 1
    assert any("2 of 6 samples of amc23 have no verdict to count" in note for note in report.notes)


def test_averages_are_plain_and_weighted_and_only_for_models_with_every_suite(tmp_path):
    report = made(
        tmp_path,
        a={"amc23": ["ccc", "www"], "math": ["ccc", "ccc", "ccc", "www", "ccc", "www"]},
        b={"amc23": ["ccc", "ccw"]},
    )
    assert report.score("a", AVERAGE).acc.value == pytest.approx((1 / 2 + 4 / 6) / 2)
    assert report.score("a", WEIGHTED).acc.value == pytest.approx(5 / 8)
    errors = [scipy_stats.sem([1, 0]), scipy_stats.sem([1, 1, 1, 0, 1, 0])]
    assert report.score("a", AVERAGE).acc.se == pytest.approx(math.hypot(*errors) / 2)
    assert report.score("b", AVERAGE) is None and report.score("b", "math") is None
    assert "no math: b (blank cells, no average)." in report.notes


def test_suites_stand_in_the_papers_order_then_the_others(tmp_path):
    report = made(tmp_path, a={"zeta": ["c"], "math": ["c"], "aime24": ["c"], "arith": ["c"]})
    assert report.suites[:2] == ("aime24", "math") and set(report.suites[2:]) == {"arith", "zeta"}


def test_paired_p_equals_the_enumeration_of_all_signs_and_holm_adjusts_over_suites(tmp_path):
    base = {"amc23": ["www"] * 8 + ["ccc"], "math": ["cww", "ccw", "www"]}
    better = {"amc23": ["ccc"] * 8 + ["ccw"], "math": ["ccw", "cww", "cww"]}
    report = made(tmp_path, baseline="base", base=base, better=better)
    exact = {}
    for suite in base:
        differences = [b.count("c") - a.count("c") for a, b in zip(base[suite], better[suite], strict=True)]
        sums = [
            abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in itertools.product((1, -1), repeat=len(differences))
        ]
        exact[suite] = sum(total >= abs(sum(differences)) for total in sums) / len(sums)
    amc, maths = report.differences["better", "amc23"], report.differences["better", "math"]
    assert amc.p == pytest.approx(exact["amc23"], abs=1e-12) and maths.p == pytest.approx(
        exact["math"], abs=1e-12
    )
    assert amc.p_adjusted == pytest.approx(2 * amc.p) and maths.p_adjusted == pytest.approx(
        max(2 * amc.p, maths.p)
    )
    assert amc.estimate.value == pytest.approx((8 - 1 / 3) / 9)
    assert (amc.words, amc.stars, maths.words, maths.stars) == ("better", "*", "tied", "")
    assert (amc.common, maths.common) == (9, 3)


def test_the_difference_of_the_averages_is_the_average_of_the_differences(tmp_path):
    base = {"amc23": ["www", "ccc", "cww"], "math": ["cww", "ccw", "www", "ccc"]}
    other = {"amc23": ["ccc", "ccc", "ccw"], "math": ["ccw", "ccw", "cww", "ccw"]}
    report = made(tmp_path, baseline="base", base=base, other=other)
    means = {
        suite: math.fsum(b.count("c") - a.count("c") for a, b in zip(base[suite], other[suite], strict=True))
        / 3
        / len(base[suite])
        for suite in base
    }
    plain, weighted = report.differences["other", AVERAGE], report.differences["other", WEIGHTED]
    assert plain.estimate.value == pytest.approx((means["amc23"] + means["math"]) / 2)
    assert weighted.estimate.value == pytest.approx((3 * means["amc23"] + 4 * means["math"]) / 7)
    shares = [
        (b.count("c") - a.count("c")) / 3 / len(base[s]) / 2
        for s in base
        for a, b in zip(base[s], other[s], strict=True)
    ]
    sums = [
        abs(sum(x * y for x, y in zip(signs, shares, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(shares))
    ]
    assert plain.p == pytest.approx(
        sum(total >= abs(sum(shares)) - 1e-12 for total in sums) / len(sums), abs=1e-12
    )


def test_models_with_different_problems_are_compared_on_the_common_ones(tmp_path):
    report = made(
        tmp_path, baseline="base", base={"amc23": ["ccc", "www", "ccc"]}, short={"amc23": ["ccc", "ccw"]}
    )
    difference = report.differences["short", "amc23"]
    assert difference.common == 2 and difference.estimate.value == pytest.approx((0 + 2 / 3) / 2)
    assert any("share 2 problems of amc23" in note for note in report.notes)


def test_a_problem_that_is_unsettled_in_one_model_is_no_pair(tmp_path):
    report = made(
        tmp_path, baseline="a", a={"amc23": ["ccc", "ttt", "www"]}, b={"amc23": ["ccc", "ccc", "ccw"]}
    )
    difference = report.differences["b", "amc23"]
    assert difference.common == 2 and difference.estimate.value == pytest.approx(1 / 3)


def test_nothing_to_compare_is_said(tmp_path):
    alone = made(tmp_path / "one", baseline="a", a={"amc23": ["ccc", "www"]})
    assert alone.notes == ("there is no other model to compare with a.",)
    apart = made(tmp_path / "two", baseline="a", a={"amc23": ["ccc"]}, b={"math": ["ccc"]})
    assert "b and a share no problem: no difference can be told." in apart.notes


def test_one_problem_has_a_value_and_no_interval(tmp_path):
    report = made(tmp_path, baseline="a", a={"amc23": ["ccw"]}, b={"amc23": ["cww"]})
    assert report.score("a", "amc23").acc == (pytest.approx(2 / 3), None, None, None, None)
    difference = report.differences["b", "amc23"]
    assert difference.estimate.low is None and difference.detectable is None and difference.p == 1.0


def test_a_suite_without_any_line_is_a_blank_cell_and_a_note(tmp_path):
    folders.write_lines(tmp_path / "a" / "math" / "samples.jsonl", [])
    report = made(tmp_path, a={"amc23": ["ccc", "ccw"]})
    assert report.score("a", "math").acc is None and report.score("a", AVERAGE) is None
    assert any("math has no problem with a verdict" in note for note in report.notes)


def test_settings_that_make_numbers_incomparable_are_noted(tmp_path):
    folders.ours(tmp_path / "a", {"amc23": ["c"]}, {"settings": {"temperature": 0.6, "seed": 1}})
    folders.ours(tmp_path / "b", {"amc23": ["c"]}, {"settings": {"temperature": 1.0, "seed": 2}})
    notes = tabulate(collect([tmp_path], None, print)).notes
    assert notes == ("settings differ in settings.temperature: a 0.6, b 1.0.",)


def test_a_baseline_may_be_named_by_its_end_when_only_one_model_ends_so():
    assert resolve("model", ["seed1/model", "base"]) == "seed1/model"
    with pytest.raises(GrailError, match="no model is called 'model'"):
        resolve("model", ["seed1/model", "seed2/model"])
    with pytest.raises(GrailError, match="did you mean 'base'"):
        resolve("bass", ["base", "grail"])


def test_an_all_wrong_suite_has_the_exact_bound_of_clopper_and_pearson(tmp_path):
    report = made(tmp_path, a={"amc23": ["www"] * 10}, b={"amc23": ["ccc"] * 10})
    bound = 1 - 0.025 ** (1 / 10)  # no success among ten
    low, high = report.score("a", "amc23").acc[1:3]
    assert (low, high) == pytest.approx((0.0, bound))
    assert report.score("b", "amc23").acc[1:3] == pytest.approx((1 - bound, 1.0))


def test_the_suites_asked_for_are_the_columns_and_one_that_nobody_has_is_blank(tmp_path):
    folders.ours(tmp_path / "a", {"amc23": ["ccc"], "math": ["cww"], "gsm8k": ["ccc"]})
    report = tabulate(collect([tmp_path], None, print), None, ["math", "aime24", "amc23"])
    assert report.columns == ["math", "aime24", "amc23"]  # without aime24 there is no average
    assert report.score("a", "aime24") is None and report.score("a", "gsm8k") is None
    assert (report.acc_name("aime24"), report.pass_name("aime24")) == ("acc@n", "pass@k")
    assert any(note.startswith("no aime24: a") for note in report.notes)
