"""Small runs of the real trainer: the shipped tiny model, a few problems, seconds a run."""

import json
import os
from pathlib import Path

import pyarrow.parquet
import pytest

from grail_cli.console import Console
from grail_cli.presets.load import load_preset
from grail_cli.tiny.task import train_rows
from grail_cli.training.run import resolve_run, train

SMALL = {
    "model.path": "tiny",
    "data.prompt_suffix": "''",
    "train.max_completion_length": 40,
    "train.num_iterations": 2,
    "train.per_device_train_batch_size": 8,
    "train.gradient_accumulation_steps": 2,
    "train.num_generations": 4,
    "train.max_steps": 6,
    "train.save_steps": 3,
    "train.learning_rate": "1e-4",
    "train.warmup_steps": 2,
    "train.seed": 7,
    "train.gradient_checkpointing": "false",
    "credit.method": "grail",
    "credit.rollouts": "all",
    "train.reward": "tests.training.varied:reward",
}


@pytest.fixture(autouse=True)
def own_rewards_are_found(monkeypatch):
    """`tests.training.varied` can be imported by launched ranks, whatever folder pytest was called in."""
    root = str(Path(__file__).resolve().parents[2])
    monkeypatch.syspath_prepend(root)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))))


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    """Ten problems of the tiny task: two generated batches of four prompts an epoch, two left out."""
    path = tmp_path_factory.mktemp("data") / "problems.jsonl"
    rows = [
        {"id": row["id"], "prompt": row["question"], "solution": row["answer"]} for row in train_rows(n=10)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def small(problems):
    """small(**{"credit.method": "grpo"}) -> a resolved preset of a run that takes seconds."""
    def resolve(**changes):
        return load_preset(None, sets=[f"{key}={value}" for key, value in
                                       {**SMALL, "data.train": problems, **changes}.items()])
    return resolve


def go_on(folder: Path, **changes):
    """Resume a run folder, with settings that may change."""
    return train(
        resolve_run(folder, sets=[f"{key}={value}" for key, value in changes.items()]),
        folder,
        resume=True,
        console=Console(quiet=True),
    )


def start(resolved, folder: Path):
    """Run from the start, silently."""
    return train(resolved, folder, console=Console(quiet=True))


def metrics(folder: Path) -> list[dict]:
    """metrics.jsonl without what the clock says."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in row.items() if not key.startswith("time/") and key != "step_time"}
        for row in rows
    ]


def rollouts(folder: Path) -> list[dict]:
    """Every recorded rollout, in order."""
    return [row for path in sorted((folder / "completions").glob("*.parquet"))
            for row in pyarrow.parquet.read_table(path).to_pylist()]


def weights(folder: Path, step: int) -> dict:
    """The parameters of a checkpoint."""
    from safetensors.torch import load_file

    return load_file(folder / f"checkpoint-{step}" / "model.safetensors")


def assert_same_run(one: Path, other: Path, step: int) -> None:
    """Parameters, metrics and rollouts are equal to the bit."""
    import torch

    first, second = weights(one, step), weights(other, step)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert metrics(one) == metrics(other)
    assert any(row["grad_norm"] for row in metrics(one))  # or nothing was learned, and equality says nothing
    assert rollouts(one) == rollouts(other)
