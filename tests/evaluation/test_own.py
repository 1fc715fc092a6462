"""Checkpoints are evaluated as their run says, unless told otherwise."""

import pytest

from grail_cli.errors import GrailError
from grail_cli.evaluation.own import own_settings, preset_of
from grail_cli.presets.load import load_preset


def run(folder, *lines):
    """A run's folder with one checkpoint; returns the checkpoint."""
    (folder / "checkpoint-20").mkdir(parents=True)
    (folder / "preset.yaml").write_text("eval:\n" + "".join(f"  {line}\n" for line in lines))
    return str(folder / "checkpoint-20")


def resolve(*sets):
    return lambda name: load_preset(name, sets=sets, environment={})


def test_a_checkpoint_brings_its_runs_settings_and_what_is_typed_wins(tmp_path):
    checkpoint = run(tmp_path / "a", "max_new_tokens: 64", "n: 7")
    resolved, source = own_settings([checkpoint], resolve("eval.n=2"))
    assert (resolved.preset.eval.max_new_tokens, resolved.preset.eval.n) == (64, 2)
    assert source == preset_of(checkpoint) == str((tmp_path / "a" / "preset.yaml").resolve())


def test_the_tiny_model_brings_settings_that_fit_its_context():
    resolved, source = own_settings(["tiny"], resolve())
    assert source == "tiny-grpo" and resolved.preset.eval.max_new_tokens == 64


def test_a_model_without_a_run_has_the_defaults_alone_and_those_of_a_run_beside_one(tmp_path):
    resolved, source = own_settings(["Qwen/Qwen3-4B"], resolve())
    assert source is None and resolved.preset.eval.max_new_tokens == 8192
    resolved, source = own_settings(["Qwen/Qwen3-4B", run(tmp_path / "a", "max_new_tokens: 64")], resolve())
    assert source and resolved.preset.eval.max_new_tokens == 64


def test_runs_that_ask_for_different_evaluations_are_refused_with_the_difference(tmp_path):
    both = [run(tmp_path / "a", "n: 2", "top_k: 5"), run(tmp_path / "b", "n: 3", "top_k: 5")]
    with pytest.raises(GrailError) as fault:
        own_settings(both, resolve())
    assert "differ in eval.n." in str(fault.value) and "--preset" in fault.value.hint
    resolved, _ = own_settings(both, resolve("eval.n=4"))
    assert resolved.preset.eval.n == 4
