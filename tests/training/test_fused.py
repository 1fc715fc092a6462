"""Weights out of the policy's own pass: taken where they pay, the same as those of a pass of their own."""

import pytest
import torch

from grail_cli.training import trainer as trainers

from .conftest import metrics, rollouts, start


def spied(monkeypatch, pays) -> list[bool]:
    """Runs decide by `pays`; gives the list of whether each spread had a tap."""
    taps, spread = [], trainers.GrailTrainer._spread

    def note(self, model, output, tap=None):
        taps.append(tap is not None)
        return spread(self, model, output, tap)

    monkeypatch.setattr(trainers.GrailTrainer, "_spread", note)
    if pays is not None:
        monkeypatch.setattr(trainers, "pays", lambda model, share: pays)
    return taps


@pytest.mark.parametrize("method", ["grail", "shuffled"])
def test_a_run_with_fused_credit_equals_one_with_a_pass_of_its_own(small, tmp_path, monkeypatch, method):
    one_step = {"credit.method": method, "train.max_steps": 1, "train.save_steps": 1,
                "train.gradient_checkpointing": "false"}
    with monkeypatch.context() as patch:
        taps = spied(patch, True)
        start(small(**one_step), tmp_path / "fused")
        assert taps and all(taps)
    with monkeypatch.context() as patch:
        taps = spied(patch, False)
        start(small(**one_step), tmp_path / "apart")
        assert taps and not any(taps)
    fused, apart = rollouts(tmp_path / "fused"), rollouts(tmp_path / "apart")
    assert [row["completion_ids"] for row in fused] == [row["completion_ids"] for row in apart]
    spread = False
    for one, other in zip(fused, apart, strict=True):
        torch.testing.assert_close(torch.tensor(one["weights"]), torch.tensor(other["weights"]),
                                   rtol=1e-4, atol=1e-4)
        spread |= len(set(one["weights"])) > 2
    assert spread  # or equality says nothing
    for key in ("loss", "grad_norm", "weights/mean", "weights/std", "weights/reweighted"):
        assert metrics(tmp_path / "fused")[0][key] == pytest.approx(metrics(tmp_path / "apart")[0][key], rel=1e-3,
                                                                    abs=1e-6)


def test_it_is_taken_by_itself_where_it_pays_and_nowhere_else(small, tmp_path, monkeypatch):
    steps = {"train.max_steps": 1, "train.save_steps": 1}
    cases = [({"credit.method": "grail", "train.gradient_checkpointing": "false"}, {True, False}),
             ({"credit.method": "grail", "train.gradient_checkpointing": "true"}, {False}),
             ({"credit.method": "entropy", "train.gradient_checkpointing": "false"}, {False}),
             ({"credit.method": "grail", "credit.refresh": "generation", "train.gradient_checkpointing": "false"},
              {False})]
    for number, (changes, allowed) in enumerate(cases):
        with monkeypatch.context() as patch:
            taps = spied(patch, None)
            start(small(**steps, **changes), tmp_path / str(number))
        assert taps and set(taps) <= allowed
        if True in allowed:
            assert True in taps
