"""Without a network, the Hub's libraries use their cache at once and a name that is not there is refused at once."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest

from grail_cli import hub
from grail_cli.errors import GrailError
from grail_cli.models import resolve_model
from grail_cli.presets.load import load_preset
from grail_cli.training.checks import check_run


@pytest.fixture
def online(monkeypatch):
    """Neither offline mode nor a proxy is asked for; the answer of an earlier test is forgotten."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    for name in hub.PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    hub.reachable.cache_clear()
    yield monkeypatch
    hub.reachable.cache_clear()


@pytest.fixture
def nobody():
    """The address of a port that no one listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_a_hub_that_answers_is_asked(online):
    with socket.create_server(("127.0.0.1", 0)) as server:
        online.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub.reachable() and os.environ["HF_HUB_OFFLINE"] == "0"
        assert hub.advice("check the id.") == "check the id."


def test_a_hub_that_does_not_answer_switches_to_offline_mode(online, nobody):
    online.setenv("HF_ENDPOINT", nobody)
    assert not hub.reachable() and os.environ["HF_HUB_OFFLINE"] == "1"
    assert hub.advice("check the id.").startswith("the Hub is out of reach")


def test_behind_a_proxy_it_is_left_to_the_library(online, nobody):
    online.setenv("HF_ENDPOINT", nobody)
    online.setenv("HTTPS_PROXY", nobody)
    assert hub.reachable() and os.environ["HF_HUB_OFFLINE"] == "0"


@pytest.mark.parametrize("endpoint", ["", "nonsense", "http://127.0.0.1:port"])
def test_an_address_that_is_none_does_not_answer(endpoint):
    assert not hub._connects(endpoint)


def test_libraries_that_were_imported_before_are_switched_too(online, nobody):
    """A fresh process: the switch must not reach the tests that come after."""
    code = ("import datasets, transformers\nfrom huggingface_hub import is_offline_mode\nfrom grail_cli import hub\n"
            "assert not is_offline_mode() and not datasets.config.HF_HUB_OFFLINE\nhub.reachable()\n"
            "assert is_offline_mode() and datasets.config.HF_HUB_OFFLINE")
    environment = os.environ | {"HF_ENDPOINT": nobody, "HF_HUB_OFFLINE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("command", [
    ("eval", "--bench", "arith", "--limit", "1", "--model", "nobody/nothing"),
    ("train", "--check", "--preset", "tiny-grpo", "--set", "model.path=nobody/nothing"),
])
def test_a_model_that_is_nowhere_is_refused_within_seconds(online, nobody, tmp_path, command):
    environment = os.environ | {"HF_ENDPOINT": nobody, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "grail_cli", *command], capture_output=True, text=True,
                          env=environment, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "nobody/nothing" in done.stderr and "the Hub is out of reach" in done.stderr


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The tiny model as `someone/tiny` in the Hub's cache, as a download leaves it; returns its files."""
    from huggingface_hub import constants

    files = tmp_path / "models--someone--tiny" / "snapshots" / ("0" * 40)
    shutil.copytree(resolve_model("tiny"), files)
    (tmp_path / "models--someone--tiny" / "refs").mkdir()
    (tmp_path / "models--someone--tiny" / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return files


def checked(tmp_path, *sets):
    resolved = load_preset("tiny-grpo", sets=["model.path=someone/tiny", *sets], environment={})
    return check_run(resolved, tmp_path / "run")


def test_prompts_and_disk_of_a_hub_model_are_checked_like_those_of_a_folder(cached, tmp_path):
    fine = checked(tmp_path)
    assert not fine.faults and not fine.missing
    assert fine.facts["example_prompt_tokens"] and fine.facts["disk_needed_gb"] > 0
    config = json.loads((cached / "config.json").read_text())
    (cached / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 60}))
    fault, = checked(tmp_path, "train.max_completion_length=56").faults
    assert fault.where == "train.max_completion_length"


def test_the_disk_is_checked_before_the_weights_are_fetched(cached, tmp_path):
    """Their size is in the index."""
    (cached / "model.safetensors").unlink()
    (cached / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 10**15}, "weight_map": {}}))
    fault, = checked(tmp_path).faults
    assert fault.kind == "disk"


def test_a_hub_model_that_is_nowhere_is_missing_here(cached, tmp_path):
    shutil.rmtree(cached)
    missing, = checked(tmp_path).missing
    assert missing.where == "model.path" and "out of reach" in missing.hint
    with pytest.raises(GrailError, match="config.json"):
        hub.model_folder("someone/tiny")
