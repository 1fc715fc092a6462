"""The real thing, where it is there: an interpreter with vLLM (GRAIL_VLLM_PYTHON) and the SmolLM2 checkpoint."""

import os
from pathlib import Path

import pytest

from .smollm2 import write_checkpoint


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """The interpreter that has vLLM; `.ci/vllm-env DIR` makes one."""
    python = os.environ.get("GRAIL_VLLM_PYTHON")
    if not python:
        pytest.skip("GRAIL_VLLM_PYTHON names no interpreter with vLLM (.ci/vllm-env DIR makes one)")
    return python


@pytest.fixture(scope="session")
def smollm2(pytestconfig) -> Path:
    """SmolLM2-135M-Instruct, made once from its package: $GRAIL_SMOLLM2, else in pytest's cache."""
    folder = os.environ.get("GRAIL_SMOLLM2") or pytestconfig.cache.mkdir("smollm2") / "SmolLM2-135M"
    return write_checkpoint(folder)
