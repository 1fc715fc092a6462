"""The vLLM server of a run: its settings, its life, its death. The server itself is a stand-in."""

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from grail_cli.console import Console
from grail_cli.errors import RunFailed
from grail_cli.presets.load import load_preset
from grail_cli.training import launch as launches
from grail_cli.training.live import LiveView
from grail_cli.training.record import RunRecord
from grail_cli.training.sampler import RunServer, server_of

SERVER = [
    "train.sampler=vllm_server",
    "train.vllm_server_gpus=6,7",
    "serve.tp=2",
    "train.vllm_max_model_length=4096",
    "launch.processes=2",
]


@pytest.fixture
def record(tmp_path):
    record = RunRecord(tmp_path / "run")
    record.begin("description: x\n", {})
    return record


def test_the_server_of_a_run_is_started_for_the_trainer_recorded_and_stopped(record, monkeypatch):
    seen, life = [], []

    @contextmanager
    def start(settings, out):
        seen.append(settings)
        life.append("up")
        yield SimpleNamespace(root_url="http://127.0.0.1:8123", log=settings.log, check_alive=lambda: None)
        life.append("down")

    monkeypatch.setattr("grail_cli.serving.start", start)
    preset = load_preset(None, sets=SERVER).preset
    with server_of(preset, record, Console(quiet=True)) as server:
        assert life == ["up"]
        assert server.arguments() == {
            "vllm_server_base_url": "http://127.0.0.1:8123",
            "vllm_group_port": server.group_port,
        }
    assert life == ["up", "down"]
    assert (
        seen[0].options.gpus == "6,7"
        and seen[0].options.max_model_len == 4096
        and seen[0].options.host == "127.0.0.1"
    )
    assert "--weight-transfer-config" in seen[0].options.extra and seen[0].log == record.logs / "vllm.log"
    from grail_cli.files import read_json

    assert read_json(record.manifest_path)["vllm_server"]["url"] == "http://127.0.0.1:8123"


def test_other_samplers_start_no_server(record):
    with server_of(load_preset(None).preset, record, Console(quiet=True)) as server:
        assert server is None


def test_a_server_that_dies_ends_the_ranks_with_its_own_words(record, monkeypatch):
    def dead():
        raise RunFailed("the server of 'tiny' has died: out of memory", kind="server")

    monkeypatch.setattr(launches, "command", lambda folder, logs: ["", "", "-c"])
    children = []
    popen = subprocess.Popen

    def sleeper(argv, **options):
        children.append(popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True))
        return children[0]

    monkeypatch.setattr(launches.subprocess, "Popen", sleeper)
    server = RunServer(SimpleNamespace(root_url="http://127.0.0.1:1", check_alive=dead), 2)
    with pytest.raises(RunFailed, match="has died: out of memory"):
        launches.launch(
            record.folder,
            load_preset(None, sets=SERVER).preset,
            checkpoint=None,
            out=Console(quiet=True),
            view=LiveView(1, quiet=True),
            server=server,
        )
    assert children[0].poll() is not None
