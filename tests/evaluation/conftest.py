"""One grading process is enough for the few answers of a test."""

import pytest

from grail_cli.evaluation import regrade, run


@pytest.fixture(autouse=True)
def one_grading_process(monkeypatch):
    monkeypatch.setattr(run, "grading_workers", lambda: 1)
    monkeypatch.setattr(regrade, "grading_workers", lambda: 1)
