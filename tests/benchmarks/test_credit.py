"""The benchmark measures the step that it names."""

import pytest

from .credit import load, rollouts, step, trainer_of


@pytest.mark.parametrize("checkpointing,runs", [(True, 2), (False, 1)])
def test_its_step_recomputes_layers_exactly_where_it_says_so(tmp_path, checkpointing, runs):
    model = load("tiny", tmp_path)
    trainer, calls = trainer_of(model, tmp_path / "run", checkpointing), []
    model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    step(trainer, rollouts(model.config.vocab_size, 1.0, 32), None)
    assert len(calls) == runs
