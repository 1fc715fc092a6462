"""`--check`: a right summary passes, every kind of wrong number is named."""

import pytest

from grail_cli.errors import GrailError, RunFailed
from grail_cli.files import write_json
from grail_cli.reporting.check import check_summaries
from grail_cli.reporting.collect import collect

from . import folders

RIGHT = {
    "amc23": {
        "samples": 2,
        "pass@3": 1.0,
        "acc@3": 2 / 3,
        "run_acc_mean": 2 / 3,
        "run_acc_std": 0.2357022604,
        "avg_tokens": 101.0,
        "null_count": 0,
    },
    "math": {"samples": 1, "pass@3": 1.0, "acc@3": 1 / 3, "avg_tokens": 101.0, "null_count": 1},
    "average": {"acc@3": 0.5, "pass@3": 1.0},
    "weighted_average": {"acc@3": 5 / 9, "pass@3": 1.0},
}


def checked(tmp_path, summary):
    """amc23: ccc, cww (runs 1, 1/2, 1/2: mean 2/3, std sqrt(1/18)); math: cwn."""
    folder = folders.ours(tmp_path / "m", {"amc23": ["ccc", "cww"], "math": ["cwn"]})
    if summary is not None:
        write_json(folder / "eval_summary.json", summary)
    return check_summaries(collect([folder], None, lambda text: None))


def test_a_summary_worked_out_by_hand_passes(tmp_path):
    assert checked(tmp_path, RIGHT) == {"compared": 16, "differences": 0, "without_summary": []}


@pytest.mark.parametrize(
    ("suite", "key", "value"),
    [
        ("amc23", "acc@3", 0.6667),
        ("amc23", "samples", 3),
        ("math", "null_count", 0),
        ("math", "avg_tokens", 101.5),
        ("amc23", "run_acc_std", 0.2),
        ("average", "acc@3", 0.51),
        ("weighted_average", "pass@3", 0.9),
    ],
)
def test_each_wrong_number_is_named_with_both_values(tmp_path, suite, key, value):
    wrong = {name: dict(entry) for name, entry in RIGHT.items()}
    wrong[suite][key] = value
    with pytest.raises(
        RunFailed, match=f"1 of 16 numbers differ .*m: {suite} {key} is {value}, from the samples "
    ) as caught:
        checked(tmp_path, wrong)
    assert caught.value.exit_code == 1


def test_a_suite_that_is_only_on_one_side_is_a_difference(tmp_path):
    with pytest.raises(RunFailed, match="aime24 is in the summary but has no samples"):
        checked(tmp_path, RIGHT | {"aime24": RIGHT["math"]})
    with pytest.raises(RunFailed, match="math is not in the summary"):
        checked(tmp_path, {name: entry for name, entry in RIGHT.items() if name != "math"})


def test_a_verdict_edited_by_hand_is_found(tmp_path):
    folder = folders.ours(tmp_path / "m", {"amc23": ["ccc"]})
    line = folders.line(0, "ccc")
    line["generated_solutions"][1]["correct"] = False
    folders.write_lines(folder / "amc23/samples.jsonl", [line])
    write_json(folder / "eval_summary.json", {"amc23": {"samples": 1, "n": 3}})
    with pytest.raises(RunFailed, match="'correct' contradicts 'verdict' in 1 samples"):
        check_summaries(collect([folder], None, lambda text: None))


def test_numbers_that_another_program_rounded_pass_to_their_last_digit(tmp_path):
    folder = folders.ours(tmp_path / "m", {"amc23": ["ccc", "cww"]})
    (folder / "manifest.json").unlink()
    write_json(folder / "eval_summary.json", {"amc23": {"acc@3": 0.6667, "samples": 2}})
    assert check_summaries(collect([folder], None, lambda text: None))["compared"] == 2


def test_nothing_to_check_is_said(tmp_path):
    with pytest.raises(GrailError, match="no folder has an eval_summary.json") as caught:
        checked(tmp_path, None)
    assert caught.value.exit_code == 2
