"""Ctrl-C, SIGTERM and SIGKILL: a checkpoint is kept, and going on from it changes nothing."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from grail_cli.training.checkpoint import newest_resumable
from grail_cli.training.phases import Phases
from grail_cli.training.run import Interrupted

from .conftest import assert_same_run, go_on, start

STEPS = {"train.max_steps": 4, "train.save_steps": 4, "credit.method": "oar_g"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, problems):
    from grail_cli.presets.load import load_preset

    from .conftest import SMALL

    run = tmp_path_factory.mktemp("runs") / "whole"
    sets = {**SMALL, "data.train": problems, **STEPS}
    start(load_preset(None, sets=[f"{key}={value}" for key, value in sets.items()]), run)
    return run


@pytest.mark.parametrize(
    "phase, nth", [("rollout", 2), ("reward", 2), ("credit", 3), ("update", 2), ("save", 1)]
)
def test_sigterm_in_any_phase_saves_and_the_resumed_run_is_the_same(
    small, tmp_path, monkeypatch, whole, phase, nth
):
    calls = []
    begin = Phases.begin

    def begin_and_kill(self, name):
        begin(self, name)
        if name == phase:
            calls.append(name)
            if len(calls) == nth:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Phases, "begin", begin_and_kill)
    sets = STEPS | ({"train.save_steps": 2} if phase == "save" else {})
    with pytest.raises(Interrupted) as caught:
        start(small(**sets), tmp_path / "run")
    assert caught.value.signum == signal.SIGTERM
    assert f"grail train --resume {tmp_path / 'run'}" in str(caught.value)
    monkeypatch.setattr(Phases, "begin", begin)
    assert 0 < newest_resumable(tmp_path / "run").step < 4
    go_on(tmp_path / "run", **{"train.save_steps": 4})
    assert_same_run(whole, tmp_path / "run", 4)


def test_sigterm_while_loading_ends_at_once_and_the_run_starts_anew(small, tmp_path, monkeypatch, whole):
    def stopped(signum, frame):  # what the edge of the command line installs
        error = KeyboardInterrupt(signum)
        error.signum = signum
        raise error

    monkeypatch.setattr(
        "grail_cli.training.rank.load_model", lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGTERM)
    )
    former = signal.signal(signal.SIGTERM, stopped)
    try:
        with pytest.raises(Interrupted, match="no checkpoint was saved yet"):
            start(small(**STEPS), tmp_path / "run")
    finally:
        signal.signal(signal.SIGTERM, former)
    monkeypatch.undo()
    go_on(tmp_path / "run")
    assert_same_run(whole, tmp_path / "run", 4)


SAVER = """
import sys
from pathlib import Path
from grail_cli.training.checkpoint import keep, seal, staged
run = Path(sys.argv[1])
step = int(sys.argv[2])
while True:
    step += 1
    folder = run / ".saving" / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    with staged(run, step):
        for name in ("model.safetensors", "optimizer.pt", "rank-0.pt", "rank-1.pt", "grail.json"):
            (folder / name).write_bytes(step.to_bytes(4, "big") * 50_000)
        seal(folder, step, {"run": "one"}, {"reward": step % 7})
    keep(run, last=2, every=5, best="reward")
    print(step, flush=True)
"""


def test_kill_minus_nine_during_a_save_always_leaves_a_whole_checkpoint(tmp_path):
    rng, known, run = random.Random(0), 0, tmp_path / "run"
    run.mkdir()
    for _ in range(20):
        child = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(run), str(known)], stdout=subprocess.PIPE, text=True
        )
        child.stdout.readline()  # imports are done, one save is
        time.sleep(rng.uniform(0.0, 0.04))
        child.send_signal(signal.SIGKILL)
        done = [int(line) for line in child.communicate()[0].split()]
        found = newest_resumable(run)
        assert found.step >= max([known + 1, *done])
        for name in ("model.safetensors", "optimizer.pt", "rank-0.pt", "rank-1.pt"):
            assert (found.path / name).read_bytes() == found.step.to_bytes(4, "big") * 50_000
        known = found.step
