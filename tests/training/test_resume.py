"""A resumed run equals an uninterrupted one, to the bit."""

import json
import shutil

import pytest

from grail_cli.errors import GrailError
from grail_cli.models import resolve_model
from grail_cli.training.checkpoint import read_seal
from grail_cli.training.resume import check_fingerprint, fingerprint

from .conftest import assert_same_run, go_on, metrics, rollouts, start


@pytest.mark.parametrize("method", ["grpo", "grail", "oar_g"])
def test_three_and_three_steps_equal_six_inside_a_rollouts_life(small, tmp_path, method):
    # a batch lives for 2 steps: 1-2, 3-4, 5-6; the checkpoint at 3 is in the middle of one
    start(small(**{"credit.method": method}), tmp_path / "whole")
    start(small(**{"credit.method": method, "train.max_steps": 3}), tmp_path / "halves")
    go_on(tmp_path / "halves", **{"train.max_steps": 6})
    assert_same_run(tmp_path / "whole", tmp_path / "halves", 6)
    assert [row["step"] for row in metrics(tmp_path / "halves")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("cut", [4, 5])
def test_the_order_of_problems_goes_on_at_and_after_an_epochs_end(small, tmp_path, cut):
    # 10 problems, 4 prompts a batch, 2 steps a batch: an epoch is 4 steps, and each has another order
    sets = {"train.max_steps": 8, "train.save_steps": 1, "credit.method": "grpo"}
    start(small(**sets), tmp_path / "whole")
    start(small(**sets | {"train.max_steps": cut}), tmp_path / "halves")
    go_on(tmp_path / "halves", **{"train.max_steps": 8})
    assert_same_run(tmp_path / "whole", tmp_path / "halves", 8)
    order = [row["problem_id"] for row in rollouts(tmp_path / "whole")][::4]
    assert order[:8] != order[8:]  # the second epoch is shuffled anew


def test_a_checkpoint_in_the_first_pass_of_a_long_generation_keeps_its_rollouts_record(small, tmp_path):
    # 4 micro-steps a generation, 2 a step: after step 1 half of the batch has not been trained on yet
    sets = {
        "train.steps_per_generation": 4,
        "train.num_iterations": 1,
        "train.max_steps": 4,
        "train.save_steps": 1,
    }
    start(small(**sets), tmp_path / "whole")
    start(small(**sets | {"train.max_steps": 1}), tmp_path / "halves")
    go_on(tmp_path / "halves", **{"train.max_steps": 4})
    assert_same_run(tmp_path / "whole", tmp_path / "halves", 4)
    assert all(row["weights"] is not None for row in rollouts(tmp_path / "halves"))


def test_records_after_the_checkpoint_are_cut_back(small, tmp_path):
    run = tmp_path / "run"
    start(small(**{"train.max_steps": 5, "train.save_steps": 3, "credit.method": "grpo"}), run)
    shutil.rmtree(run / "checkpoint-5")  # as if the run had been killed after step 5's log
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 6, "rew')  # a torn line
    go_on(run, **{"train.max_steps": 6})
    assert [row["step"] for row in metrics(run)] == [1, 2, 3, 4, 5, 6]
    assert {row["step"] for row in rollouts(run)} == {1, 3, 5}


def test_another_runs_checkpoint_is_refused_with_every_differing_key(small, tmp_path):
    start(small(**{"train.max_steps": 3, "credit.method": "grpo"}), tmp_path / "run")
    with pytest.raises(GrailError) as caught:
        go_on(
            tmp_path / "run",
            **{"train.max_steps": 6, "train.seed": 8, "train.learning_rate": 1e-3, "credit.std": 0.7},
        )
    for text in ("train.seed 7 -> 8", "train.learning_rate 0.0001 -> 0.001", "credit.std 0.5 -> 0.7"):
        assert text in caught.value.message
    assert "max_steps" not in caught.value.message


def test_the_last_step_may_change_only_where_the_step_size_does_not_depend_on_it(small):
    def mark(scheduler, steps):
        sets = {"train.lr_scheduler_type": scheduler, "train.max_steps": steps}
        return fingerprint(small(**sets).preset, world=1, data="d", model="m")

    assert mark("constant_with_warmup", 3) == mark("constant_with_warmup", 6)
    assert mark("cosine", 3) != mark("cosine", 6)


def test_another_number_of_processes_is_explained(small, tmp_path):
    start(small(**{"train.max_steps": 1, "credit.method": "grpo"}), tmp_path / "run")
    found = read_seal(tmp_path / "run" / "checkpoint-1")
    with pytest.raises(GrailError) as caught:
        check_fingerprint(found, {**found.fingerprint, "world_size": 2})
    assert "world_size 1 -> 2" in caught.value.message and "model.path=" in caught.value.hint


def test_another_models_checkpoint_is_refused(small, tmp_path):
    start(small(**{"train.max_steps": 1, "credit.method": "grpo"}), tmp_path / "run")
    other = tmp_path / "model"
    shutil.copytree(resolve_model("tiny"), other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "rope_theta": 12345.0, "rope_parameters":
                                                   {"rope_type": "default", "rope_theta": 12345.0}}))
    with pytest.raises(GrailError, match="model [0-9a-f]{10} -> [0-9a-f]{10}"):
        go_on(tmp_path / "run", **{"train.max_steps": 2, "model.path": other})


def test_other_problems_behind_the_same_name_are_noticed(small, problems, tmp_path):
    moved = tmp_path / "problems.jsonl"
    moved.write_text(problems.read_text())
    start(small(**{"train.max_steps": 1, "credit.method": "grpo", "data.train": moved}), tmp_path / "run")
    rows = moved.read_text().splitlines()
    moved.write_text("\n".join([json.dumps({**json.loads(rows[0]), "solution": "1"}), *rows[1:]]) + "\n")
    with pytest.raises(GrailError, match="problems "):
        go_on(tmp_path / "run", **{"train.max_steps": 2})
