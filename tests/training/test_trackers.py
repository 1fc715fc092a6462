"""Trackers: the same run after a kill, each step once, no secret on disk, and never the end of a run."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from grail_cli.training import trackers
from grail_cli.training.phases import Phases
from grail_cli.training.record import RunRecord
from grail_cli.training.trackers import arguments, attach, identity, tame, tracker_faults

from .conftest import SMALL, start
from .test_launch_real import wait_until

OURS = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_PROJECT", "WANDB_DIR", "WANDB_CONSOLE", "TENSORBOARD_LOGGING_DIR")
SECRETS = {"WANDB_API_KEY": "5ec2e7" * 6 + "abcd", "HF_TOKEN": "hf_neverToBeWrittenAnywhereAtAll"}


@pytest.fixture(autouse=True)
def no_environment_is_left(monkeypatch):
    for name in (*OURS, "WANDB_MODE", "WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL"):
        monkeypatch.setenv(name, "")  # noted for the end of the test, also where `attach` sets it
        monkeypatch.delenv(name)


def opened(folder) -> RunRecord:
    record = RunRecord(folder)
    record.begin("description: x\n", {})
    return record


def test_trackers_belong_to_the_same_run_after_a_resume_and_a_move(tmp_path, monkeypatch):
    record = opened(tmp_path / "run")
    first = attach(["wandb", "tensorboard", "trackio"], record)
    assert first["WANDB_RESUME"] == "allow" and first["WANDB_RUN_ID"] == os.environ["WANDB_RUN_ID"]
    assert first["TENSORBOARD_LOGGING_DIR"].startswith(str(tmp_path / "run"))
    for name in OURS:
        monkeypatch.delenv(name)
    (tmp_path / "run").rename(tmp_path / "moved")
    second = attach(["wandb", "tensorboard", "trackio"], opened(tmp_path / "moved"))
    assert second["WANDB_RUN_ID"] == first["WANDB_RUN_ID"]
    assert second["TRACKIO_RUN"].rpartition("-")[2] == first["TRACKIO_RUN"].rpartition("-")[2]


def test_what_the_user_set_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    assert attach(["wandb"], opened(tmp_path / "run"))["WANDB_PROJECT"] == "mine"


def test_two_folders_of_one_name_are_two_runs_of_trackio(tmp_path, monkeypatch):
    one = opened(tmp_path / "a" / "run")
    monkeypatch.setattr("grail_cli.training.record.now", lambda: "another time")
    other = opened(tmp_path / "b" / "run")
    assert identity(one) != identity(other)
    names = [arguments(["trackio"], record)["run_name"] for record in (one, other)]
    assert names[0] != names[1] and all(name.startswith("run-") for name in names)
    assert arguments(["wandb"], one) == {}


def test_a_wandb_without_a_key_is_found_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    faults = tracker_faults(["wandb"])
    assert [fault.where for fault in faults] == ["train.report_to"] and "WANDB_API_KEY" in faults[0].line()
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert tracker_faults(["wandb", "tensorboard"]) == []
    monkeypatch.delenv("WANDB_MODE")
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password key\n")
    assert tracker_faults(["wandb"]) == []
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert len(tracker_faults(["wandb"])) == 1
    monkeypatch.setenv("WANDB_API_KEY", "key")
    assert tracker_faults(["wandb"]) == []


def test_a_tracker_that_is_not_installed_is_found_before_training(monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    assert [fault.hint for fault in tracker_faults(["trackio"])] == ["pip install trackio"]


class WandbCallback:
    """Stands for transformers' callback of this name: breaks as a network does, and wants to be finished."""

    def __init__(self):
        self.calls, self.codes = [], []
        self._wandb = SimpleNamespace(run=SimpleNamespace(finish=lambda exit_code: self.codes.append(exit_code)))

    def on_train_begin(self, *args, **kwargs):
        self.calls.append("begin")

    on_save = on_train_end = on_train_begin

    def on_log(self, *args, **kwargs):
        self.calls.append("log")
        raise ConnectionError("api.wandb.ai is not there\nand more")


@pytest.mark.parametrize("fails", [False, True])
def test_a_tracker_that_breaks_is_switched_off_with_a_word_and_told_the_end(fails):
    callback, said = WandbCallback(), []
    trainer = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=[callback]),
                              args=SimpleNamespace(report_to=["wandb"]))
    phases = Phases({})
    with pytest.raises(ValueError) if fails else ExitStack(), ExitStack() as stack:
        tame(trainer, 0, stack, phases=phases, warn=said.append)
        callback.on_train_begin(None)
        callback.on_log(None)
        callback.on_log(None)
        if fails:
            raise ValueError
    assert callback.calls == ["begin", "log"] and trainer.args.report_to == []
    assert said == ["wandb is switched off for this attempt: ConnectionError: api.wandb.ai is not there; "
                    "metrics.jsonl has everything."]
    assert callback.codes == [int(fails)] and "end" in phases.take()


def test_what_a_reward_prints_is_not_the_result(small, tmp_path, monkeypatch, capsys):
    (tmp_path / "loud_reward.py").write_text(
        "def reward(prompts, completions, **columns):\n    print('loud')\n    return [0.5] * len(completions)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    start(small(**{"train.reward": "loud_reward:reward", "train.max_steps": 1, "credit.method": "grpo"}), tmp_path / "run")
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("loud") >= 2  # tried once in the checks, then called for a batch


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_goes_on_as_the_same_run_of_every_tracker_and_writes_no_secret(problems, tmp_path, processes):
    """wandb offline, trackio and tensorboard for real: kill -9 behind the checkpoint of step 3, then a resume."""
    for name in trackers.MODULES:
        pytest.importorskip(name)
    run, home = tmp_path / "run", tmp_path / "home"
    env = {**os.environ, **SECRETS, "WANDB_MODE": "offline", "TRACKIO_DIR": str(home / "trackio"), "HOME": str(home),
           "HF_HOME": str(home / "hf")}
    sets = {**SMALL, "data.train": problems, "credit.method": "grpo", "train.num_iterations": 1,
            "train.report_to": "[wandb,trackio,tensorboard]", "launch.processes": processes,
            "train.gradient_accumulation_steps": 2 // processes, "train.max_steps": 200}
    (tmp_path / "mine.yaml").write_text("description: of a test\n")
    command = [sys.executable, "-m", "grail_cli", "train", "--json", "--out", str(run)]
    words = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
    first = subprocess.Popen([*command, "--preset", str(tmp_path / "mine.yaml"), *words], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    steps = run / "metrics.jsonl"
    wait_until(lambda: steps.is_file() and len(steps.read_text().splitlines()) >= 5 or first.poll() is not None, 300)
    first.send_signal(signal.SIGKILL)
    said = first.communicate()
    assert first.returncode == -signal.SIGKILL, said
    lost = len(steps.read_text().splitlines())
    last = lost + 3
    again = subprocess.run([*command, "--resume", "--set", f"train.max_steps={last}"], env=env, capture_output=True,
                           text=True)
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)  # one document, whatever trackers print
    assert document["step"] == last and not any("switched off" in text for text in document.get("warnings", ()))

    name = json.loads((run / "manifest.json").read_text())["trackers"]["WANDB_RUN_ID"]
    offline = sorted((run / "logs" / "wandb").glob("offline-run-*"))
    assert len(offline) == 2 and all(folder.name.endswith(name) for folder in offline)
    assert wandb_steps(offline[1] / f"run-{name}.wandb")[-1] == last

    (database,) = (home / "trackio").rglob("grail.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("select run_id, run_name, metrics from metrics").fetchall()
    assert len({row[:2] for row in rows}) == 1 and rows[0][1] == f"run-{name[:8]}"
    logged = [json.loads(row[2]) for row in rows]
    assert {row["train/global_step"] for row in logged if "train/reward" in row} == set(range(1, last + 1))

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "logs" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/reward")] == list(range(1, last + 1))  # each once

    for path in [*run.rglob("*"), *home.rglob("*"), tmp_path / "mine.yaml"]:
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert not [key for key, value in SECRETS.items() if value.encode() in content], path
    assert not any(value in text for value in SECRETS.values() for text in (*said, again.stdout, again.stderr))


def wandb_steps(path) -> list[int]:
    """`train/global_step` of the history records in a .wandb file: the key, then the value as JSON (field 16)."""
    return [int(step) for step in re.findall(rb"train/global_step\x82\x01.(\d+)", path.read_bytes(), re.S)]
