"""The doctor names what is missing, what that costs, and the next step."""

import os
import sys

from grail_cli import machine
from grail_cli.presets import load_preset


def test_a_present_package_is_ok_and_an_absent_one_names_cost_and_remedy(monkeypatch):
    monkeypatch.setattr(machine, "_version", lambda name: {"torch": "2.13.0+cpu", "trl": "1.9.0"}.get(name))
    findings = {finding.what.split()[0]: finding for finding in machine._packages()}
    assert findings["torch"].level == "ok"
    assert findings["trl"].level == "fault" and "pip install 'trl==1.16.*'" in findings["trl"].remedy
    assert findings["vllm"].level == "note" and "grail serve" in findings["vllm"].cost and ".[gpu]" in findings["vllm"].remedy
    assert findings["transformers"].level == "fault"


def test_a_preset_for_eight_gpus_names_what_a_laptop_lacks(monkeypatch):
    monkeypatch.setattr(machine, "_gpus", lambda: [machine.Finding("GPU", "none", "note")])
    monkeypatch.setattr(machine, "_version", lambda name: None)
    lacks = {finding.what for finding in machine.needs(load_preset("qwen3-grail", environment={}).preset)}
    assert lacks == {"launch.processes", "launch.zero", "model.attn_implementation", "train.sampler"}


def test_a_machine_with_everything_lacks_nothing(monkeypatch):
    monkeypatch.setattr(machine, "_gpus", lambda: [machine.Finding(f"GPU {index}", "H100", "ok") for index in range(4)])
    monkeypatch.setattr(machine, "_version", lambda name: "1.0")
    assert machine.needs(load_preset("qwen3-grail", environment={}).preset) == []


def test_gpus_are_read_from_nvidia_smi(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'H100, 81920, 70000'\necho 'H100, 81920, 10'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    busy, free = machine._gpus()
    assert (busy.what, busy.level, free.level) == ("GPU 0", "note", "ok")
    assert busy.found == "H100, 68 of 80 GiB in use"


def test_an_interpreter_without_vllm_is_a_fault(monkeypatch):
    monkeypatch.setenv("GRAIL_VLLM_PYTHON", "/no/such/python")
    assert machine._vllm_python().level == "fault"
    monkeypatch.setattr(machine.subprocess, "run", lambda *a, **k: type("Done", (), {"returncode": 0, "stdout": "set()"})())
    monkeypatch.setenv("GRAIL_VLLM_PYTHON", sys.executable)
    assert "has no vLLM" in machine._vllm_python().cost


def test_another_grail_on_the_path_is_noticed(monkeypatch, tmp_path):
    (tmp_path / "grail").write_text("#!/bin/sh\n")
    (tmp_path / "grail").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine._entry_point().level == "note"


def test_versions_name_what_a_result_depends_on():
    assert {"python", "torch", "transformers", "trl"} <= set(machine.versions())
