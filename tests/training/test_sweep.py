"""A sweep: what is read from the command line, what is planned, and that a killed one goes on to the same result."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grail_cli.console import Console
from grail_cli.errors import Faults, GrailError
from grail_cli.presets import load_preset
from grail_cli.training import side_by_side
from grail_cli.training import sweep as sweeps
from grail_cli.training.sweep import check_all, places, plan, read_arms, read_seeds, run_name

PRESET = "tiny-study"
SHORT = ["train.max_steps=4", "train.save_steps=2", "train.per_device_train_batch_size=8"]


@pytest.mark.parametrize("text, seeds", [("0-3", [0, 1, 2, 3]), ("5", [5]), ("0,7-8", [0, 7, 8])])
def test_seeds_are_numbers_and_ranges(text, seeds):
    assert read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "3-1", "a", "1,,2", "-1", "0-2,1", "1.5"])
def test_what_is_no_list_of_seeds_is_refused(text):
    with pytest.raises(GrailError) as refused:
        read_seeds(text)
    assert refused.value.where == "--seeds"


def test_an_arm_is_a_method_with_settings():
    arms = read_arms("grpo,grail:stats=reasoning:pin=reweighted")
    assert [arm.sets for arm in arms] == [
        ("credit.method=grpo",), ("credit.method=grail", "credit.stats=reasoning", "credit.pin=reweighted")]
    assert run_name(arms[1].folder, 3) == "grail+stats=reasoning+pin=reweighted-seed-3"


def test_grail_plus_is_the_shipped_presets_settings():
    (arm,) = read_arms("grail-plus")
    made = load_preset(PRESET, sets=arm.sets).preset.credit
    plus = load_preset("qwen3-grail-plus").preset.credit
    assert all(getattr(made, key) == getattr(plus, key)
               for key in ("method", "stats", "pin", "answer_span", "refresh", "std", "w_min", "w_max"))


def test_every_unknown_arm_is_named_at_once():
    with pytest.raises(Faults) as refused:
        read_arms("grial,grpo,grail:sats=reasoning,oar_g:method=grpo")
    lines = [fault.line() for fault in refused.value.faults]
    assert len(lines) == 3 and "grail" in lines[0] and "stats" in lines[1] and "method=grpo" in lines[2]


@pytest.mark.parametrize("text", ["", ",", "grpo,grpo"])
def test_no_arm_and_a_doubled_arm_are_refused(text):
    with pytest.raises(GrailError):
        read_arms(text)


def test_runs_are_planned_seed_by_seed_each_an_ordinary_command(tmp_path):
    runs = plan(read_arms("grpo,grail"), [0, 1], tmp_path, preset=PRESET, config=None, sets=SHORT)
    assert [run.name for run in runs] == ["grpo-seed-0", "grail-seed-0", "grpo-seed-1", "grail-seed-1"]
    words = runs[3].words()
    assert words[:3] == ["train", "--preset", PRESET] and words[-2:] == ["--out", str(tmp_path / "grail-seed-1")]
    sets = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    assert load_preset(PRESET, sets=sets).preset == runs[3].resolved.preset
    assert runs[3].resolved.preset.train.seed == 1


def test_faults_of_an_arm_are_found_before_any_run_and_told_once(tmp_path):
    with pytest.raises(GrailError) as refused:
        plan(read_arms("grpo,grail:leaf=top"), [0, 1], tmp_path, preset=PRESET, config=None, sets=SHORT)
    assert refused.value.line().count("top") == 1
    runs = plan(read_arms("grpo,grail"), [0, 1], tmp_path, preset=PRESET, config=None,
                sets=[*SHORT, "train.num_generations=7"])
    with pytest.raises(GrailError) as refused:
        check_all(runs)
    lines = refused.value.line().splitlines()
    assert len(lines) == len(set(lines))


def test_gpus_are_dealt_out_and_never_shared():
    alone = load_preset("qwen3-0.6b-grail-1gpu")
    assert [place["CUDA_VISIBLE_DEVICES"] for place in places(alone, ["0", "1", "GPU-x"])] == ["0", "1", "GPU-x"]
    wide = load_preset("qwen3-0.6b-grail-1gpu", sets=["launch.processes=2"])
    assert [place["CUDA_VISIBLE_DEVICES"] for place in places(wide, ["0", "1", "2"])] == ["0,1"]
    named = load_preset("qwen3-0.6b-grail-1gpu", sets=["launch.gpus='2'"])
    assert places(named, ["0", "1", "2"]) == [{}]
    assert all(place["OMP_NUM_THREADS"] == "1" for place in places(load_preset(PRESET), []))


def sweep(out: Path, *more: str) -> list[str]:
    sets = [word for text in SHORT for word in ("--set", text)]
    return [sys.executable, "-m", "grail_cli", "train", "--preset", PRESET, *sets, "--seeds", "3", "--methods",
            "grpo,grail", "--out", str(out), *more]


def truth(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if "time" not in key} for row in rows]


def weights(run: Path) -> bytes:
    return (run / "checkpoint-4" / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_sweep_goes_on_and_two_runs_of_a_seed_are_identical(tmp_path):
    whole = subprocess.run(sweep(tmp_path / "whole", "--json"), capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    assert [run["step"] for run in json.loads(whole.stdout)["runs"]] == [4, 4]

    killed = subprocess.Popen(sweep(tmp_path / "killed", "--jobs", "1"), stderr=subprocess.DEVNULL, text=True)
    metrics = tmp_path / "killed" / "grpo-seed-3" / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not (metrics.is_file() and len(metrics.read_text().splitlines()) >= 3):
        assert time.monotonic() < deadline and killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    time.sleep(1.0)
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "killed")], capture_output=True, text=True).stdout.split()
    assert [pid for pid in left if int(pid) != os.getpid()] == []

    again = subprocess.run(sweep(tmp_path / "killed"), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    for name in ("grpo-seed-3", "grail-seed-3"):
        one, other = tmp_path / "whole" / name, tmp_path / "killed" / name
        assert truth(one) == truth(other) and weights(one) == weights(other)
    first = [truth(tmp_path / "whole" / name)[0] for name in ("grpo-seed-3", "grail-seed-3")]
    for key in ("reward", "completions/mean_length", "entropy"):
        assert first[0][key] == first[1][key]  # the same prompts, the same first rollouts
    assert weights(tmp_path / "whole" / "grpo-seed-3") != weights(tmp_path / "whole" / "grail-seed-3")


def test_sweep_options_that_do_not_go_together_are_refused(tmp_path):
    for more, word in ((["--resume"], "--resume"), (["--sbatch"], "--sbatch"), (["--method", "grpo"], "--method")):
        done = subprocess.run(sweep(tmp_path, *more), capture_output=True, text=True)
        assert done.returncode == 2 and word in done.stderr and "Traceback" not in done.stderr
    alone = subprocess.run([sys.executable, "-m", "grail_cli", "train", "--preset", PRESET, "--jobs", "2"],
                           capture_output=True, text=True)
    assert alone.returncode == 2 and "--seeds" in alone.stderr


def test_an_interrupted_sweep_says_what_is_kept(tmp_path, monkeypatch):
    def stopped(children):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "follow", stopped)
    monkeypatch.setattr(side_by_side, "_start", lambda words, log, place: subprocess.Popen(["sleep", "30"]))
    runs = plan(read_arms("grpo,grail"), [0], tmp_path, preset=PRESET, config=None, sets=SHORT)
    with pytest.raises(KeyboardInterrupt, match="0 of 2 runs are done.*the same command goes on"):
        sweeps.train_all(runs, tmp_path, [{}, {}], Console(quiet=True))
