"""Several real processes: DDP and ZeRO on the CPU, a failing rank, a killed parent, two machines on the loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from grail_cli.errors import RunFailed
from grail_cli.training.launch import free_port

from .conftest import SMALL, assert_same_run, go_on, metrics, rollouts, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
TWO = {"launch.processes": 2, "train.gradient_accumulation_steps": 1, "train.per_device_train_batch_size": 8,
       "train.num_iterations": 2, "train.max_steps": 6}


@pytest.mark.parametrize(
    "zero, method", [(0, "grpo"), (0, "grail"), (0, "oar_g"), (2, "grail"), (3, "grail")]
)
def test_two_processes_resume_to_the_bit(small, tmp_path, zero, method):
    if zero:
        pytest.importorskip("deepspeed")
    sets = TWO | {"launch.zero": zero, "credit.method": method}
    start(small(**sets), tmp_path / "whole")
    start(small(**sets | {"train.max_steps": 3}), tmp_path / "halves")  # inside a rollout's life
    go_on(tmp_path / "halves", **{"train.max_steps": 6})
    assert_same_run(tmp_path / "whole", tmp_path / "halves", 6)
    groups = [row["problem_id"] for row in rollouts(tmp_path / "whole")]
    assert all(len(set(groups[start:start + 4])) == 1 for start in range(0, len(groups), 4))


def test_ddp_and_both_stages_of_zero_train_alike(small, tmp_path):
    pytest.importorskip("deepspeed")
    losses = {}
    for zero in (0, 2, 3):
        start(small(**TWO | {"launch.zero": zero, "train.max_steps": 2}), tmp_path / str(zero))
        losses[zero] = [row["loss"] for row in metrics(tmp_path / str(zero))]
    assert losses[2] == pytest.approx(losses[0], abs=1e-6)
    assert losses[3] == pytest.approx(losses[0], abs=1e-6)


def leftovers(folder: Path) -> list[str]:
    """Command lines of live processes that name a folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if (
            str(folder) in line
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and process.pid != os.getpid()
        ):
            found.append(line)
    return found


def wait_until(condition, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.2)
    return False


REWARDS = """
import os, time
def failing(prompts, completions, **columns):
    if os.environ.get("RANK") == "1":
        raise RuntimeError("the reward of rank one is broken")
    return [0.0] * len(completions)
def hanging(prompts, completions, **columns):
    if os.environ.get("RANK") == "1":
        time.sleep(600)
    return [0.0] * len(completions)
"""


@pytest.fixture
def own_rewards(tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_rank_that_failed_is_named_with_its_own_words_and_nothing_is_left(small, own_rewards, capfd):
    with pytest.raises(RunFailed, match="rank 1 failed: RuntimeError: the reward of rank one is broken"):
        start(small(**TWO | {"train.reward": "own_rewards:failing"}), own_rewards / "run")
    assert "the reward of rank one is broken" in capfd.readouterr().err
    assert json.loads((own_rewards / "run" / "manifest.json").read_text())["outcome"] == "failed"
    assert wait_until(lambda: not leftovers(own_rewards / "run"), 10)


def test_a_hang_in_one_phase_ends_with_its_name(small, own_rewards):
    began = time.monotonic()
    with pytest.raises(RunFailed, match="phase 'reward' has run for"):
        start(
            small(**TWO | {"train.reward": "own_rewards:hanging", "train.deadlines": "{reward: 3}"}),
            own_rewards / "run",
        )
    assert time.monotonic() - began < 560
    assert list((own_rewards / "run" / "logs").glob("attempt-1/deadline-reward-*.txt"))
    assert wait_until(lambda: not leftovers(own_rewards / "run"), 10)


HANGING = """
import sys, time
from grail_cli.training.phases import Phases
begin, hung = Phases.begin, sys.argv.pop(1)
def begin_and_hang(self, name):
    begin(self, name)
    if name == hung:
        time.sleep(600)
Phases.begin = begin_and_hang
from grail_cli.cli import main
main()
"""


@pytest.mark.parametrize("phase", ["load", "rollout", "reward", "credit", "update", "save", "end"])
def test_a_command_that_hangs_in_any_phase_ends_with_its_name_and_its_run_can_go_on(problems, tmp_path, phase):
    run = tmp_path / "run"
    line = command_line(run, problems, **{"train.max_steps": 1, "train.deadlines": f"{{{phase}: 2}}"})
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HANGING, phase, *line[3:]], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and time.monotonic() - began < 200
    assert f"error: phase '{phase}' has run for" in done.stderr
    assert json.loads((run / "manifest.json").read_text())["outcome"] == f"failed: deadline of {phase}"
    assert wait_until(lambda: not leftovers(run), 10), leftovers(run)
    go_on(run, **{"train.deadlines": "{}"})
    assert [row["step"] for row in metrics(run)] == [1]


def command_line(folder: Path, problems: Path, **changes) -> list[str]:
    sets = {**SMALL, "data.train": problems, **changes}
    preset = folder.parent / f"{folder.name}.yaml"
    preset.write_text("description: of a test\n")
    return [sys.executable, "-m", "grail_cli", "train", "--preset", str(preset), "--out", str(folder),
            *[part for key, value in sets.items() for part in ("--set", f"{key}={value}")]]


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_stopped_command_leaves_no_process_and_says_how_to_go_on(
    problems, tmp_path, processes, signum, code
):
    run = tmp_path / "run"
    changes = (TWO if processes == 2 else {}) | {
        "train.max_steps": 500,
        "train.save_steps": 200,
        "credit.method": "grpo",
    }
    child = subprocess.Popen(command_line(run, problems, **changes), stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: (run / "metrics.jsonl").exists() and len(metrics(run)) >= 2, 400)
    child.send_signal(signum)
    said = child.communicate(timeout=300)[1]
    assert child.returncode == code
    assert wait_until(lambda: not leftovers(run), 10), leftovers(run)
    if signum != signal.SIGKILL:
        assert f"grail train --resume {run}" in said
        last = metrics(run)[-1]["step"]
        assert (run / f"checkpoint-{last}" / "checkpoint.json").exists()


def test_two_machines_meet_on_the_loopback(problems, tmp_path):
    run, port = tmp_path / "run", free_port()
    layout = {
        "launch.machines": 2,
        "launch.main_port": port,
        "launch.main_address": "127.0.0.1",
        "train.max_steps": 2,
        "train.gradient_accumulation_steps": 1,
        "credit.method": "grail",
    }
    machines = [
        subprocess.Popen(
            command_line(run, problems, **layout, **{"launch.rank": rank}), stderr=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    said = [machine.communicate(timeout=580)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert [row["step"] for row in metrics(run)] == [1, 2]
    assert json.loads((run / "manifest.json").read_text())["world_size"] == 2
    assert wait_until(lambda: not leftovers(run), 10), leftovers(run)


def test_ranks_that_torchrun_started_are_recognised(problems, tmp_path):
    run = tmp_path / "run"
    line = command_line(
        run,
        problems,
        **{"train.max_steps": 2, "train.gradient_accumulation_steps": 1, "credit.method": "grpo"},
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--master-port",
            str(free_port()),
            "-m",
            *line[2:],
        ],
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "manifest.json").read_text())["world_size"] == 2
    assert [row["step"] for row in metrics(run)] == [1, 2]
