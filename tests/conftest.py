"""What the tests share: reference data beside the checkout, a private home, and an environment without `GRAIL_*`."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# a check of a change must say the same twice; at a desk every run draws new examples
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch loads: the models are tiny, and the workers share the cores

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout; tests that need it skip where it is absent."""
    folder = ROOT.parent / "shared"
    if not (folder / "spec.md").is_file():
        pytest.skip("the reference data (../shared) is not beside this checkout")
    return folder


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own state."""
    for name in list(os.environ):
        if name.startswith("GRAIL_") and name != "GRAIL_VLLM_PYTHON":
            monkeypatch.delenv(name)
    monkeypatch.setenv("GRAIL_HOME", str(tmp_path_factory.mktemp("grail-home")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("COLUMNS", raising=False)  # tables as wide as in a file, whatever terminal runs the tests


def pytest_configure():
    """A shell starts background jobs with Ctrl-C ignored, and programs under test would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
