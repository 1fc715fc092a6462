"""Runs next to each other: planned, started, followed, stopped."""

import subprocess
import sys

import pytest

from grail_cli.console import Console
from grail_cli.errors import GrailError, RunFailed
from grail_cli.files import append_jsonl, write_json, write_text
from grail_cli.presets import load_preset
from grail_cli.training import side_by_side
from grail_cli.training.side_by_side import Children, Run, follow, refuse_others, training

ASKED = ("--preset", "tiny-grpo", "--set", "train.max_steps=4")


def made(folder, name="grpo") -> Run:
    return Run(name, load_preset("tiny-grpo", sets=["train.max_steps=4"]), folder / name, ASKED)


def test_a_new_run_is_an_ordinary_command(tmp_path):
    run = made(tmp_path)
    assert run.words() == ["train", *ASKED, "--out", str(tmp_path / "grpo")]
    assert run.last == tmp_path / "grpo" / "checkpoint-4" and not run.finished
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_goes_on(tmp_path):
    run = made(tmp_path)
    write_text(run.folder / "preset.yaml", run.resolved.to_yaml())
    assert run.words() == ["train", "--resume", str(run.folder)]


def test_a_run_of_other_settings_is_never_mixed_in(tmp_path):
    run = made(tmp_path)
    write_text(run.folder / "preset.yaml", run.resolved.to_yaml())
    refuse_others([run])
    other = Run("grpo", load_preset("tiny-grpo", sets=["train.max_steps=4", "train.seed=7"]), run.folder, ASKED)
    with pytest.raises(GrailError, match="other settings") as refused:
        refuse_others([other])
    assert str(run.folder) in refused.value.line() and "--out" in refused.value.line()


def test_a_finished_run_is_not_started_again(tmp_path, capsys):
    run = made(tmp_path)
    write_json(run.last / "checkpoint.json", {})
    with training([run], tmp_path / "logs", Console()) as children:
        assert not children.running and not children.waiting
        follow(children)
    assert "all 4 steps are done" in capsys.readouterr().err


def python(code: str):
    def start(words, log, place):
        return subprocess.Popen([sys.executable, "-c", code])
    return start


def test_a_run_that_fails_is_told_with_the_end_of_its_log_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    runs = [made(tmp_path, name) for name in ("one", "two", "three")]
    write_text(tmp_path / "one.log", "".join(f"line {i}\n" for i in range(20)) + "error: the disk is full\n")
    marks = tmp_path / "marks"
    marks.mkdir()

    def start(words, log, place):
        code = f"open({str(marks / log.stem)!r}, 'w'); raise SystemExit({3 if log.stem == 'one' else 0})"
        return subprocess.Popen([sys.executable, "-c", code])

    monkeypatch.setattr(side_by_side, "_start", start)
    with pytest.raises(RunFailed) as failed, training(runs, tmp_path, Console(), jobs=1) as children:
        follow(children)
    assert sorted(file.name for file in marks.iterdir()) == ["one", "three", "two"]
    assert "exit code 3" in failed.value.line() and "the disk is full" in failed.value.line()
    assert "line 2\n" not in failed.value.line()
    assert "one failed; the other runs go on" in capsys.readouterr().err


def test_no_more_run_at_a_time_than_asked_and_each_has_a_place_of_its_own(tmp_path, monkeypatch):
    runs = [made(tmp_path, f"r{i}") for i in range(5)]
    alive, most, places = [], [], []

    def start(words, log, place):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"])
        alive.append(child)
        most.append(sum(one.poll() is None for one in alive))
        places.append(place["GPU"])
        return child

    monkeypatch.setattr(side_by_side, "_start", start)
    monkeypatch.setattr(side_by_side, "LOOK_EVERY_S", 0.05)
    with training(runs, tmp_path, Console(quiet=True), jobs=2, places=[{"GPU": "0"}, {"GPU": "1"}]) as children:
        follow(children)
    assert len(places) == 5 and set(places) == {"0", "1"} and max(most) == 2


def test_steps_and_rewards_are_shown_while_waiting(tmp_path, capsys):
    run = made(tmp_path)
    run.folder.mkdir()
    append_jsonl(run.folder / "metrics.jsonl", [{"step": 1, "reward": 0.25}, {"step": 2}, {"step": 3, "reward": 0.75}])
    children = Children(tmp_path, Console(), 1, [], running=[(run, python("pass")(0, 0, 0), {})])
    follow(children)
    assert run.rewards() == [(1, 0.25), (3, 0.75)]
    assert "3/4 steps" in capsys.readouterr().err
