"""A run's folder, its alarms and what stops it; real training on the tiny model."""

import json
import math

import pytest
import torch
import yaml

from grail_cli.console import Console
from grail_cli.errors import GrailError, RunFailed
from grail_cli.presets.load import load_preset
from grail_cli.prompts import read_stamp
from grail_cli.training.checkpoint import read_seal
from grail_cli.training.combinations import keep_best_names
from grail_cli.training.run import resolve_run, train

from .conftest import metrics, rollouts, start


@pytest.fixture(scope="module")
def run(tmp_path_factory, problems):
    from .conftest import SMALL

    folder = tmp_path_factory.mktemp("runs") / "run"
    sets = {
        **SMALL,
        "data.train": problems,
        "train.max_steps": 2,
        "train.save_steps": 1,
        "credit.refresh": "generation",
        "train.reward": "math",
    }
    start(load_preset(None, sets=[f"{key}={value}" for key, value in sets.items()]), folder)
    return folder


def test_the_run_folder_holds_what_it_promises(run):
    manifest = json.loads((run / "manifest.json").read_text())
    assert (
        manifest["outcome"] == "done" and manifest["attempts"][0]["step"] == 2 and manifest["world_size"] == 1
    )
    assert {"versions", "hardware", "seed", "plan", "fingerprint", "parameters"} <= set(manifest)
    assert (
        manifest["versions"]["torch"] == torch.__version__.split("+")[0]
        or manifest["versions"]["torch"] == torch.__version__
    )
    assert (run / "logs" / "latest").resolve() == (run / "logs" / "attempt-1").resolve()
    preset = yaml.safe_load((run / "preset.yaml").read_text())
    assert preset["credit"]["refresh"] == "generation"
    assert [row["step"] for row in metrics(run)] == [1, 2]


def test_a_checkpoint_knows_how_it_was_asked_and_loads_like_any_model(run):
    stamp = read_stamp(run / "checkpoint-2")
    assert stamp.extra["sampling"]["temperature"] == 1.0 and stamp.extra["credit"]["method"] == "grail"
    from grail_cli.models import check_folder, load_model

    check_folder(str(run / "checkpoint-2"))
    assert sum(p.numel() for p in load_model(str(run / "checkpoint-2")).parameters()) > 0


def test_a_seal_knows_the_newest_reward_also_at_a_step_that_generated_nothing(run):
    assert "reward" not in metrics(run)[1]
    assert read_seal(run / "checkpoint-2").metrics["reward"] == metrics(run)[0]["reward"]


def test_every_name_that_keep_best_takes_is_in_the_seal_of_every_checkpoint(run):
    train = load_preset(str(run / "preset.yaml")).preset.train
    for step in (1, 2):
        assert set(keep_best_names(train)) <= set(read_seal(run / f"checkpoint-{step}").metrics)


def test_a_resumed_run_keeps_the_name_of_its_preset(run):
    made_of = json.loads((run / "manifest.json").read_text())["preset"]
    assert resolve_run(run).name == made_of == "defaults"


def test_every_rollout_is_recorded_with_what_a_replay_needs(run):
    rows = rollouts(run)
    assert len(rows) == 16  # one generated batch, used for two steps
    for row in rows:
        assert len(row["weights"]) == len(row["completion_ids"]) and row["prompt_ids"] and row["verdict"]
        assert row["reward"] == {"correct": 1.0, "wrong": 0.0, "no_box": 0.0}[row["verdict"]]
    for start_of_group in range(0, 16, 4):
        group = rows[start_of_group:start_of_group + 4]
        mean = sum(row["reward"] for row in group) / 4
        assert [row["advantage"] for row in group] == pytest.approx([row["reward"] - mean for row in group])


def test_the_logged_weight_mean_and_spread_are_those_of_the_recorded_weights(small, tmp_path):
    run = tmp_path / "run"
    start(small(**{"train.max_steps": 1}), run)
    values = []
    for row in rollouts(run):
        if row["truncated"] or row["advantage"] == 0 or row["weights"] == [1.0] * len(row["weights"]):
            continue
        values += row["weights"]
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    # two micro-batches are averaged with equal say, whatever their number of tokens
    assert metrics(run)[0]["weights/mean"] == pytest.approx(mean, rel=0.05)
    assert metrics(run)[0]["weights/std"] == pytest.approx(spread, rel=0.1)


def test_the_phases_of_a_step_add_up_to_its_time(run):
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        inside = sum(value for key, value in row.items() if key.startswith("time/") and key != "time/step")
        assert inside <= row["time/step"] + 0.01
        assert inside >= 0.8 * row["time/step"]


def test_a_folder_that_exists_is_refused_and_left_alone(run, small):
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    with pytest.raises(GrailError, match="exists already; nothing was written") as caught:
        start(small(), run)
    assert f"grail train --resume {run}" in caught.value.hint
    after = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name != ".lock"}
    assert after.items() <= before.items() or set(after) <= set(before)


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path, small):
    with pytest.raises(GrailError, match="holds no run to resume"):
        train(small(), tmp_path / "nothing", resume=True, console=Console(quiet=True))


def test_a_constant_reward_with_on_alarm_stop_ends_with_a_sentence(small, tmp_path, monkeypatch):
    (tmp_path / "same_reward.py").write_text(
        "def reward(prompts, completions, **columns): return [0.5] * len(completions)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        RunFailed, match="no group had a signal in 2 generated batches .mean reward 0.50."
    ) as caught:
        start(
            small(
                **{
                    "train.reward": "same_reward:reward",
                    "train.on_alarm": "stop",
                    "train.num_iterations": 1,
                    "train.alarms": "{no_signal_batches: 2}",
                }
            ),
            tmp_path / "run",
        )
    assert caught.value.exit_code == 1 and caught.value.hint
    assert (tmp_path / "run" / "checkpoint-2").exists()
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["outcome"] == "failed"


@pytest.mark.parametrize("value, what", [(float("inf"), "loss"), (float("nan"), "loss")])
def test_a_loss_that_is_not_finite_stops_before_the_optimiser_and_is_dumped(
    small, tmp_path, monkeypatch, value, what
):
    from grail_cli.training import trainer as module

    inner = module.compute_credit

    def spoiled(*args, **kwargs):
        credit = inner(*args, **kwargs)
        credit.weights[0, 0] = value
        return credit

    monkeypatch.setattr(module, "compute_credit", spoiled)
    with pytest.raises(RunFailed, match=f"the {what} of step 1 is .*optimiser step was not taken"):
        start(small(), tmp_path / "run")
    dump = torch.load(next((tmp_path / "run" / "logs").glob("attempt-1/not-finite-*.pt")), weights_only=True)
    assert {"completion_ids", "advantages", "token_weights"} <= set(dump)
    assert not list((tmp_path / "run").glob("checkpoint-*"))


def test_a_gradient_that_is_not_finite_stops_before_the_optimiser(small, tmp_path, monkeypatch):
    from grail_cli.training.trainer import GrailTrainer

    inner = GrailTrainer.training_step

    def spoiled(self, model, *args, **kwargs):
        loss = inner(self, model, *args, **kwargs)
        next(parameter for parameter in model.parameters() if parameter.grad is not None).grad.flatten()[0] = float("inf")
        return loss

    monkeypatch.setattr(GrailTrainer, "training_step", spoiled)
    with pytest.raises(RunFailed, match="the gradient norm of step 1 is inf; the optimiser step was not taken"):
        start(small(), tmp_path / "run")
    assert list((tmp_path / "run" / "logs").glob("attempt-1/not-finite-*.pt"))
    assert not list((tmp_path / "run").glob("checkpoint-*"))


def test_a_sampler_that_disagrees_with_the_trainer_is_logged_and_stops_the_run(small, tmp_path, monkeypatch):
    from trl import GRPOTrainer

    inner = GRPOTrainer._generate_single_turn

    def off_by_far(self, *args, **kwargs):
        ids, _, *rest = inner(self, *args, **kwargs)
        end = self._tokenizer.eos_token_id  # as vLLM gives them: nothing behind the end token
        ids = [row[: row.index(end) + 1] if end in row else row for row in map(list, ids)]
        return (ids, [[-50.0 for _ in row] for row in ids], *rest)

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", off_by_far)
    with pytest.raises(RunFailed, match="log-prob"):
        start(small(**{"train.on_alarm": "stop", "train.max_steps": 12, "train.save_steps": 12}), tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    drift = [row["sampling/sampling_logp_difference/mean"] for row in rows if row.get("sampling/sampling_logp_difference/mean")]
    assert drift and all(30 < value <= 50 for value in drift)  # a trained token's own log p is near 0, never near -50


def test_lora_trains_adapters_alone_and_resumes_to_the_bit(small, tmp_path):
    pytest.importorskip("peft")
    from safetensors.torch import load_file

    from .conftest import go_on

    sets = {"model.lora_rank": 4, "train.max_steps": 4, "train.save_steps": 1, "train.learning_rate": 1e-3}
    start(small(**sets), tmp_path / "whole")
    start(small(**sets | {"train.max_steps": 1}), tmp_path / "halves")
    go_on(tmp_path / "halves", **{"train.max_steps": 4})
    one, other = (
        load_file(tmp_path / name / "checkpoint-4" / "adapter_model.safetensors")
        for name in ("whole", "halves")
    )
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "halves")
    manifest = json.loads((tmp_path / "whole" / "manifest.json").read_text())
    assert 0 < manifest["trainable"] < manifest["parameters"]
