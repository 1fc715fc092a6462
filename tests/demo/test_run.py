"""`grail demo` really runs: both methods learn, and a demo that was stopped goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow
SHORT = ("--set", "train.max_steps=4", "--set", "train.save_steps=2",
         "--set", "eval.limit=10", "--set", "eval.n=2")


def demo(folder, *more):
    return [sys.executable, "-m", "grail_cli", "demo", "--out", str(folder), *more]


def numbers_of(stdout: str) -> dict:
    return {name: (values["accuracy"], values["gain"]) for name, values in json.loads(stdout)["methods"].items()}


@pytest.mark.timeout(1500)
def test_both_methods_learn_by_15_points_and_more(tmp_path):
    done = subprocess.run(demo(tmp_path / "demo", "--json"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document["methods"]) == {"grpo", "grail"}
    for numbers in document["methods"].values():
        assert numbers["gain"] >= 0.15 and numbers["gain_low"] > 0.1
        assert abs(numbers["accuracy"] - document["start"] - numbers["gain"]) < 1e-9
    names = {os.path.relpath(file, tmp_path / "demo") for file in document["files"]}
    assert {"report.xlsx", "report.html", "figures/curves.png", "analysis/figures/reference.png"} <= names
    assert all(os.path.getsize(file) > 1000 for file in document["files"])

    rewards = [[json.loads(line)["reward"] for line in open(os.path.join(numbers["run"], "metrics.jsonl"))]
               for numbers in document["methods"].values()]
    assert len(rewards[0]) == len(rewards[1]) == 60
    assert rewards[0][0] == rewards[1][0]  # the same prompts, the same first rollouts


@pytest.mark.timeout(900)
def test_a_demo_that_was_stopped_goes_on_and_ends_as_one_that_was_not(tmp_path):
    command = demo(tmp_path / "stopped", *SHORT, "--json")
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "stopped" / "runs" / "grail" / "metrics.jsonl"
    while not metrics.is_file() and first.poll() is None:
        time.sleep(0.2)
    first.send_signal(signal.SIGINT)
    stdout, stderr = first.communicate()
    assert first.returncode == 130, stderr
    assert json.loads(stdout)["error"]["kind"] == "interrupted"

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    whole = subprocess.run(demo(tmp_path / "whole", *SHORT, "--json"), capture_output=True, text=True)
    assert numbers_of(again.stdout) == numbers_of(whole.stdout)

    third = subprocess.run(command, capture_output=True, text=True)
    assert third.returncode == 0 and numbers_of(third.stdout) == numbers_of(again.stdout)
    assert third.stderr.count("steps are done") == 2 and "samples, " not in third.stderr


@pytest.mark.timeout(900)
def test_batches_that_are_used_twice_are_counted_and_drawn_once(tmp_path):
    command = demo(tmp_path / "demo", *SHORT, "--set", "train.num_iterations=2", "--json")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for numbers in json.loads(done.stdout)["methods"].values():
        rows = [json.loads(line) for line in open(os.path.join(numbers["run"], "metrics.jsonl"))]
        assert [row["step"] for row in rows] == [1, 2, 3, 4]
        assert ["reward" in row for row in rows] == [True, False, True, False]
    steps = [line for line in done.stderr.splitlines() if line.startswith("training") and "/8 steps" in line]
    assert steps and "8/8 steps" in steps[-1]
    assert os.path.getsize(tmp_path / "demo" / "figures" / "curves.png") > 1000
