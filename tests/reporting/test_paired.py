"""A sweep's comparison: arms and seeds out of labels, numbers as counted by hand, the same again from its own file."""

import json
import subprocess
import sys

import pytest

from grail_cli.console import Console
from grail_cli.errors import GrailError
from grail_cli.reporting import paired_text
from grail_cli.reporting.build import build
from grail_cli.reporting.paired import Entry, Sweep, Training, read_document, rows, sweep_of

PROBLEMS, N = 20, 4


def folder(root, label: str, right, suite="arith-hard", verdict="wrong", problems=PROBLEMS, n=N):
    """Results of one model: right(i) of n samples of problem i are right."""
    place = root / label / suite
    place.mkdir(parents=True)
    lines = [{"id": f"p{i}", "question": f"q{i}", "gt_answer": "1", "generated_solutions": [
        {"solution": "x", "completion_tokens": 10, "pred_answer": "1", "sample": s,
         "verdict": "correct" if s < right(i) else verdict, "correct": s < right(i)} for s in range(n)]}
        for i in range(problems)]
    (place / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def results(root, seeds=4):
    for seed in range(seeds):
        for step in (2, 4):
            folder(root, f"grpo-seed-{seed}@step-{step}", lambda i, seed=seed: (i + seed) % 3)
            folder(root, f"grail+pin=all-seed-{seed}@step-{step}", lambda i, seed=seed: (i + seed) % 3 + 1)
    folder(root, "base", lambda i: 1)
    return root


def swept(root, **changes) -> Sweep:
    return sweep_of(build([results(root, **changes)], None, Console(quiet=True)))


def test_arms_seeds_and_steps_come_out_of_the_labels(tmp_path):
    sweep = swept(tmp_path)
    assert sorted(sweep.arms) == ["grail+pin=all", "grpo"] and sweep.suites == ["arith-hard"]
    assert sorted(sweep.at("grpo", "arith-hard", 4)) == [0, 1, 2, 3] and sweep.steps("arith-hard") == [2, 4]
    assert sweep.start == {"arith-hard": 0.25}


def test_numbers_as_counted_by_hand(tmp_path):
    base, other = rows(swept(tmp_path), "grpo")
    assert base.arm == "grpo" and base.against is None and base.step == 4 and base.seeds == 4
    by_hand = sum((i + seed) % 3 for i in range(PROBLEMS) for seed in range(4)) / (4 * PROBLEMS * N)
    assert base.accuracy.value == pytest.approx(by_hand)
    assert base.passed.value == pytest.approx(
        sum((i + seed) % 3 > 0 for i in range(PROBLEMS) for seed in range(4)) / (4 * PROBLEMS))
    assert other.against.difference == pytest.approx((0.25, 0.25, 0.25))
    assert other.against.p == 2 / 16 and other.words == "no difference shown"  # four seeds cannot show more


def test_eight_seeds_that_agree_show_a_difference(tmp_path):
    other = rows(swept(tmp_path, seeds=8), "grpo")[1]
    assert other.p_adjusted == 2 / 256 and other.words == "better"
    assert rows(swept(tmp_path / "again", seeds=8), "grail+pin=all")[1].words == "worse"


def test_an_arm_that_changed_nothing_is_identical(tmp_path):
    sweep = swept(tmp_path)
    twin = Sweep((*sweep.entries, *(Entry("twin", *list(vars(e).values())[1:]) for e in sweep.entries
                                    if e.arm == "grpo")))
    assert {row.arm: row.words for row in rows(twin, "grpo")}["twin"] == "identical"


def test_the_file_gives_the_same_table_again(tmp_path):
    sweep = swept(tmp_path / "results")
    sweep = Sweep(sweep.entries, sweep.start, (Training("grpo", 0, ((1, 0.5), (3, 0.75)), 2.0, 0.5),), ("a note",))
    file = tmp_path / "paired.json"
    file.write_text(sweep.text())
    again = read_document(file)
    assert again == sweep
    assert (paired_text.markdown(again, rows(again, "grpo"), "grpo")
            == paired_text.markdown(sweep, rows(sweep, "grpo"), "grpo"))


def test_credit_is_a_share_of_the_rest_of_the_step(tmp_path):
    sweep = swept(tmp_path)
    timed = Sweep(sweep.entries, trainings=(Training("grpo", 0, (), 1.25, 0.25),))
    assert rows(timed, "grpo")[0].credit_share == pytest.approx(0.25)


def test_samples_without_a_verdict_are_refused_by_name(tmp_path):
    results(tmp_path)
    folder(tmp_path, "grpo-seed-9@step-4", lambda i: 1, verdict="timeout")
    with pytest.raises(GrailError, match="without a verdict") as refused:
        sweep_of(build([tmp_path], None, Console(quiet=True)))
    assert "grpo-seed-9" in refused.value.where


def test_other_problems_are_refused_by_name(tmp_path):
    results(tmp_path)
    folder(tmp_path, "grpo-seed-9@step-4", lambda i: 1, problems=7)
    with pytest.raises(GrailError, match="other problems") as refused:
        sweep_of(build([tmp_path], None, Console(quiet=True)))
    assert "seed-9" in refused.value.where or "grail" in refused.value.where


def test_results_without_a_sweep_and_a_wrong_baseline_are_refused(tmp_path):
    folder(tmp_path / "one", "base", lambda i: 1)
    with pytest.raises(GrailError, match="run of a sweep"):
        sweep_of(build([tmp_path / "one"], None, Console(quiet=True)))
    with pytest.raises(GrailError, match="no arm") as refused:
        rows(swept(tmp_path / "two"), "nobody")
    assert "grpo" in refused.value.line()


def report(*words) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "grail_cli", "report", *map(str, words)], capture_output=True,
                          text=True)


def test_the_command_writes_table_file_and_figures(tmp_path):
    results(tmp_path / "results", seeds=8)
    done = report(tmp_path / "results", "--paired", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["baseline"] == "grpo" and [row["verdict"] for row in document["rows"]] == ["", "better"]
    names = {"paired.json", "table.md", "table.csv", "curves.png", "curves.pdf", "differences.png", "differences.pdf"}
    assert names == {file.name for file in (tmp_path / "out").iterdir()}
    again = report(tmp_path / "out" / "paired.json", "--paired", "--out", tmp_path / "again", "--quiet")
    assert again.returncode == 0, again.stderr
    for name in ("paired.json", "table.md", "table.csv", "curves.png"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_flags_without_effect_are_refused(tmp_path):
    results(tmp_path / "results")
    for words in (["--check"], ["--format", "csv"], ["--out", "x.xlsx"]):
        done = report(tmp_path / "results", "--paired", *words)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    wrong = tmp_path / "other.json"
    wrong.write_text("{}")
    assert report(wrong, "--paired").returncode == 2
