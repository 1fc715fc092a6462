"""Alarms ring when they should, once, and with numbers."""

import pytest

from grail_cli.presets.schema import ALARMS
from grail_cli.training.health import Health

FINE = {
    "step": 1,
    "reward": 0.5,
    "groups_with_signal": 0.6,
    "completions/clipped_ratio": 0.1,
    "answer_found": 0.9,
    "verdicts/timeout": 0.0,
    "verdicts/error": 0.0,
    "weights/share_at_min": 0.1,
    "weights/share_at_max": 0.1,
}


def names(health: Health, row: dict, times: int = 1) -> list[str]:
    return [alarm.name for _ in range(times) for alarm in health.check(row)]


def test_a_healthy_run_is_silent():
    assert names(Health(ALARMS), FINE, 50) == []


@pytest.mark.parametrize("name, change, batches", [
    ("no_signal", {"groups_with_signal": 0.0}, 8),
    ("truncated", {"completions/clipped_ratio": 1.0}, 4),
    ("no_answer", {"answer_found": 0.02}, 4),
    ("unscored", {"verdicts/timeout": 0.15, "verdicts/error": 0.1}, 1),
    ("bounds", {"weights/share_at_min": 0.6, "weights/share_at_max": 0.38}, 4),
    ("logp_difference", {"sampling/sampling_logp_difference/mean": 0.5}, 4),
])
def test_an_alarm_rings_once_after_its_patience(name, change, batches):
    health = Health(ALARMS)
    assert names(health, FINE | change, batches - 1) == []
    assert names(health, FINE | change) == [name]
    assert names(health, FINE | change, 5) == []
    # quiet in between: rings again
    assert names(health, FINE) == [] and names(health, FINE | change, batches) == [name]


def test_steps_that_generate_nothing_neither_ring_nor_count():
    health = Health({**ALARMS, "no_signal_batches": 2})
    reused = {"step": 2, "loss": 0.0}
    assert names(health, FINE | {"groups_with_signal": 0.0}) == []
    assert names(health, reused, 10) == []
    assert names(health, FINE | {"groups_with_signal": 0.0}) == ["no_signal"]


def test_the_sentence_has_the_numbers_and_a_way_out():
    alarm = Health({**ALARMS, "no_signal_batches": 1}).check(
        FINE | {"groups_with_signal": 0.0, "reward": 0.0}
    )[0]
    assert "no group had a signal in 1 generated batches (mean reward 0.00)" in alarm.sentence and alarm.hint
