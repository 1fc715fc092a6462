"""Runs next to each other: planned, started, followed, stopped."""

import subprocess
import sys

import pytest

from grail_cli.console import Console
from grail_cli.demo.side_by_side import Run, follow, plan, training
from grail_cli.errors import GrailError, RunFailed
from grail_cli.files import append_jsonl, write_json, write_text
from grail_cli.presets import load_preset

METHODS = {"grpo": "tiny-grpo", "grail": "tiny-grail"}
SHORT = ("train.max_steps=4",)


def test_a_new_run_is_an_ordinary_command(tmp_path):
    grpo, grail = plan(METHODS, tmp_path, SHORT)
    assert grail.words() == ["train", "--preset", "tiny-grail", "--set", "train.max_steps=4",
                             "--out", str(tmp_path / "grail")]
    assert grpo.last == tmp_path / "grpo" / "checkpoint-4" and not grpo.finished
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_goes_on(tmp_path):
    run = plan(METHODS, tmp_path, SHORT)[0]
    write_text(run.folder / "preset.yaml", run.resolved.to_yaml())
    assert plan(METHODS, tmp_path, SHORT)[0].words() == ["train", "--resume", str(run.folder)]


def test_a_demo_of_other_settings_is_never_mixed_in(tmp_path):
    run = plan(METHODS, tmp_path, SHORT)[0]
    write_text(run.folder / "preset.yaml", run.resolved.to_yaml())
    with pytest.raises(GrailError, match="other settings") as refused:
        plan(METHODS, tmp_path, ["train.max_steps=4", "train.seed=7"])
    assert str(run.folder) in refused.value.line() and "--out" in refused.value.line()


def test_the_methods_difference_cannot_be_overridden(tmp_path):
    with pytest.raises(GrailError, match="compares methods"):
        plan(METHODS, tmp_path, ["credit.method=oar_g"])


def test_a_finished_run_is_not_started_again(tmp_path, capsys):
    runs = plan(METHODS, tmp_path, SHORT)
    for run in runs:
        write_json(run.last / "checkpoint.json", {})
    with training(runs, tmp_path / "logs", Console()) as children:
        assert children == []
        follow(children, tmp_path / "logs", Console())
    assert "all 4 steps are done" in capsys.readouterr().err


def python(code: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code])


def made_run(folder) -> Run:
    return Run("grpo", load_preset("tiny-grpo", sets=SHORT), folder / "grpo")


def test_a_run_that_fails_is_told_with_the_end_of_its_log(tmp_path):
    run = made_run(tmp_path)
    write_text(tmp_path / "grpo.log", "".join(f"line {i}\n" for i in range(20)) + "error: the disk is full\n")
    with pytest.raises(RunFailed) as failed:
        follow([(run, python("import sys; sys.exit(3)"))], tmp_path, Console(quiet=True))
    assert "exit code 3" in failed.value.line() and "the disk is full" in failed.value.line()
    assert "line 2\n" not in failed.value.line()


def test_steps_and_rewards_are_shown_while_waiting(tmp_path, capsys):
    run = made_run(tmp_path)
    run.folder.mkdir()
    append_jsonl(run.folder / "metrics.jsonl", [{"step": 1, "reward": 0.25}, {"step": 2, "reward": 0.75}])
    follow([(run, python("pass"))], tmp_path, Console())
    assert run.rewards() == [0.25, 0.75]
    assert "2/4 steps" in capsys.readouterr().err
