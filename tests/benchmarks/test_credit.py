"""The benchmark measures the step that it names."""

import inspect
import subprocess
import sys

import pytest

from .credit import high_water, load, rollouts, step, trainer_of


@pytest.mark.parametrize("checkpointing,runs", [(True, 2), (False, 1)])
def test_its_step_recomputes_layers_exactly_where_it_says_so(tmp_path, checkpointing, runs):
    model = load("tiny", tmp_path)
    trainer, calls = trainer_of(model, tmp_path / "run", checkpointing), []
    model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    step(trainer, rollouts(model.config.vocab_size, 1.0, 32), None)
    assert len(calls) == runs


def test_the_peak_of_a_process_is_not_that_of_its_parent():
    parent = bytearray(2**28)
    parent[::1024] = b"x" * len(parent[::1024])  # resident, and this process holds torch
    code = "import re\nfrom pathlib import Path\n" + inspect.getsource(high_water) + "print(high_water())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 2**16 < 2**18 < high_water()  # KiB
