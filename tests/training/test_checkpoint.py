"""Whole or not there; retention as declared; never fewer than one to resume from."""

import json

import pytest

from grail_cli.errors import GrailError
from grail_cli.training.checkpoint import checkpoints, keep, newest_resumable, read_seal, seal, staged


def save(run, step, **metrics):
    folder = run / ".saving" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    with staged(run, step):
        for name in (
            "model.safetensors",
            "optimizer.pt",
            "scheduler.pt",
            "rng_state.pth",
            "rank-0.pt",
            "grail.json",
        ):
            (folder / name).write_text(f"{name} of {step}")
        (folder / "global_step1").mkdir()
        (folder / "global_step1" / "shard.pt").write_text("zero")
        seal(folder, step, {"model": "m"}, metrics)


def state(run) -> dict[int, bool]:
    return {found.step: found.resumable for found in map(read_seal, checkpoints(run))}


def test_a_torn_newest_checkpoint_is_skipped_with_a_word(tmp_path):
    for step in (5, 10):
        save(tmp_path, step)
    (tmp_path / "checkpoint-10" / "optimizer.pt").write_text("half")
    said = []
    assert newest_resumable(tmp_path, said.append).step == 5
    assert said == ["skipping checkpoint-10: optimizer.pt is 4 bytes, not 18 bytes."]


@pytest.mark.parametrize("harm, words", [
    (lambda folder: (folder / "checkpoint.json").unlink(), "has no seal"),
    (lambda folder: (folder / "rank-0.pt").unlink(), "rank-0.pt is missing"),
    (lambda folder: (folder / "checkpoint.json").write_text("{"), "not a JSON document"),
])
def test_what_is_torn_is_said(tmp_path, harm, words):
    save(tmp_path, 1)
    harm(tmp_path / "checkpoint-1")
    with pytest.raises(GrailError, match=words):
        read_seal(tmp_path / "checkpoint-1")
    assert newest_resumable(tmp_path) is None


def test_the_newest_stay_resumable_and_every_older_one_keeps_its_weights(tmp_path):
    for step in range(1, 6):
        save(tmp_path, step)
        keep(tmp_path, last=2, every=None, best=None)
    assert state(tmp_path) == {1: False, 2: False, 3: False, 4: True, 5: True}
    assert sorted(path.name for path in (tmp_path / "checkpoint-1").iterdir()) == [
        "checkpoint.json",
        "grail.json",
        "model.safetensors",
    ]


def test_weights_stay_at_every_nth_step_and_of_the_best(tmp_path):
    rewards = {10: 0.1, 20: 0.2, 30: 0.9, 40: 0.3, 50: 0.4, 60: 0.5}
    for step, reward in rewards.items():
        save(tmp_path, step, reward=reward)
        keep(tmp_path, last=1, every=20, best="reward")
    assert state(tmp_path) == {20: False, 30: False, 40: False, 60: True}


def test_one_whole_checkpoint_is_never_given_up_for_a_torn_one(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "checkpoint-2" / "optimizer.pt").unlink()
    keep(tmp_path, last=1, every=100, best=None)
    assert newest_resumable(tmp_path).step == 1


def test_a_checkpoint_of_the_same_step_is_replaced_whole(tmp_path):
    save(tmp_path, 3)
    (tmp_path / "checkpoint-3" / "left-over").write_text("old")
    save(tmp_path, 3)
    assert read_seal(tmp_path / "checkpoint-3").step == 3
    assert not (tmp_path / "checkpoint-3" / "left-over").exists() and not (tmp_path / ".saving").exists()


def test_the_seal_lists_every_file_with_its_size(tmp_path):
    save(tmp_path, 1, reward=0.5)
    raw = json.loads((tmp_path / "checkpoint-1" / "checkpoint.json").read_text())
    assert raw["files"]["global_step1/shard.pt"] == 4 and raw["metrics"] == {"reward": 0.5}
