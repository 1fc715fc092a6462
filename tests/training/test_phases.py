"""Clocks that add up, and deadlines that name the phase."""

import threading
import time

import pytest

from grail_cli.presets.schema import DEADLINES
from grail_cli.training.phases import Phases


def test_an_inner_phase_stops_the_outer_clock():
    phases = Phases({})
    began = time.monotonic()
    with phases("update"):
        time.sleep(0.05)
        with phases("rollout"):
            time.sleep(0.1)
    whole = time.monotonic() - began
    spent = phases.take()
    assert spent["rollout"] >= 0.1 and spent["update"] >= 0.05
    assert spent["rollout"] + spent["update"] == pytest.approx(whole, abs=0.01)
    assert phases.take() == {}


@pytest.mark.parametrize("name", sorted(DEADLINES))
def test_a_hang_in_any_phase_ends_within_its_deadline_with_its_name(tmp_path, monkeypatch, capsys, name):
    ended = threading.Event()
    codes = []

    def end(code):
        codes.append(code)
        ended.set()
        threading.Event().wait()  # the real one never returns

    monkeypatch.setattr("grail_cli.training.phases.os._exit", end)
    told = []
    phases = Phases({name: 0.3}, logs=tmp_path, on_expiry=lambda phase, seconds: told.append(phase))
    began = time.monotonic()
    with phases("other"), phases(name):
        assert ended.wait(5)
    assert time.monotonic() - began < 3
    assert codes == [1] and told == [name]
    assert f"phase '{name}' has run for" in capsys.readouterr().err
    dump = next(tmp_path.glob(f"deadline-{name}-*.txt")).read_text()
    assert "test_a_hang_in_any_phase" in dump  # where it hung


def test_time_spent_in_inner_phases_does_not_count_towards_the_outer_deadline(monkeypatch):
    monkeypatch.setattr("grail_cli.training.phases.os._exit", lambda code: pytest.fail("ended"))
    phases = Phases({"update": 0.5})
    with phases("update"), phases("rollout"):
        time.sleep(1.0)
    phases.close()
