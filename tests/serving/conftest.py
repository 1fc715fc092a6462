"""A fake vLLM for this interpreter, a small checkpoint folder, and a look at what is left of a process group."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from grail_cli.console import Console
from grail_cli.presets.schema import ServeSection
from grail_cli.serving import ServeSettings

FAKE = Path(__file__).parent / "fake"
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_attention_heads": 8,
          "num_key_value_heads": 2,
          "max_position_embeddings": 1024}


def make_checkpoint(folder: Path, *, template: bool = True, **config) -> Path:
    """A folder that looks like a checkpoint to everything that reads JSON only."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"} if template else {}))
    (folder / "model.safetensors").write_bytes(b"\0" * 64)
    return folder


def wait_for(condition, timeout_s: float = 10.0) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def fake_processes(token: str) -> list[int]:
    """Living processes that carry a test's token in their environment."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("FAKE_VLLM_TOKEN") == token:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    return make_checkpoint(tmp_path / "model")


@pytest.fixture
def out() -> Console:
    return Console()


class Fake:
    """Sets the switches of the fake, and knows its processes."""

    def __init__(self, monkeypatch, model: Path, home: Path):
        self.monkeypatch, self.model, self.home = monkeypatch, model, home
        self.token = f"{os.getpid()}-{time.monotonic_ns()}"
        monkeypatch.setenv("FAKE_VLLM_TOKEN", self.token)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), str(FAKE.parents[2])]))
        monkeypatch.setenv("GRAIL_VLLM_PYTHON", sys.executable)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def switch(self, **switches) -> None:
        self.monkeypatch.setenv("FAKE_VLLM", json.dumps(switches))

    def settings(self, *, model: Path | None = None, route: str = "plain", log: Path | None = None,
                 **options) -> ServeSettings:
        options = {"grace_s": 1.0, "start_timeout_s": 20.0, **options}
        return ServeSettings(model=str(model or self.model), options=ServeSection(**options), route=route,
                             log=log)

    def processes(self) -> list[int]:
        return fake_processes(self.token)

    def nothing_left(self) -> bool:
        """No process of ours, no state file, no half-written file."""
        return wait_for(lambda: not self.processes(),
                        3.0) and not list((self.home / "servers").glob("*.json")) \
            and not list((self.home / "servers").glob(".*"))


@pytest.fixture
def fake(monkeypatch, checkpoint) -> Fake:
    return Fake(monkeypatch, checkpoint, Path(os.environ["GRAIL_HOME"]))
