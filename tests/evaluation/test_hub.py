"""Suites from the Hub: what is asked of `datasets`, the file that is fetched, and a sentence where it cannot be had."""

import json
import re

import pytest

from grail_cli.errors import GrailError, RunFailed
from grail_cli.evaluation.benchmarks import SUITES, fingerprint, load_suite
from grail_cli.evaluation.hub import fetch


@pytest.fixture
def hub(monkeypatch, shared):
    """`datasets.load_dataset` gives the rows of our file, changed by `hub.change`; notes what it was asked."""
    datasets = pytest.importorskip("datasets")

    class Hub:
        asked: list = []
        change = staticmethod(lambda rows: rows)

    def load_dataset(*words, **named):
        Hub.asked.append((words, named))
        suite = next(suite for suite in SUITES.values() if suite.hub == words[0])
        lines = (shared / "bench" / {"math": "math500.jsonl"}.get(suite.name, suite.file)).read_text().splitlines()
        return Hub.change([json.loads(line) for line in lines])

    Hub.asked = []
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return Hub


@pytest.mark.parametrize("name", ["aime24", "college_math", "olympiadbench", "gsm8k"])
def test_a_suite_from_the_hub_is_the_suite_from_files(hub, shared, name):
    suite = SUITES[name]
    assert fingerprint(load_suite(name)[1]) == fingerprint(load_suite(name, str(shared / "bench"))[1])
    assert hub.asked == [((suite.hub, suite.config), {"split": suite.split, "revision": suite.revision})]


def test_revisions_are_commits():
    """A branch or a tag may move; `college_math` has no commit that is known."""
    pinned = {name: suite.revision for name, suite in SUITES.items() if name != "college_math"}
    assert all(re.fullmatch("[0-9a-f]{40}", revision or "") for revision in pinned.values()), pinned


def test_a_fetched_file_is_read_without_the_network(hub, tmp_path):
    path = fetch(SUITES["aime24"], tmp_path / "suites")
    asked = len(hub.asked)
    assert path.name == "aime24.jsonl" and len(load_suite("aime24", str(tmp_path / "suites"))[1]) == 30
    assert len(hub.asked) == asked


def test_a_data_set_that_changed_is_refused_and_no_file_is_left(hub, tmp_path):
    hub.change = staticmethod(lambda rows: [{**rows[0], "answer": "12345"}, *rows[1:]])
    with pytest.raises(GrailError, match="1 golds differ"):
        fetch(SUITES["aime24"], tmp_path)
    hub.change = staticmethod(lambda rows: [{"text": row["problem"]} for row in rows])
    with pytest.raises(GrailError, match="no column 'problem'; there are: text"):
        load_suite("aime24")
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_cannot_be_reached_is_a_sentence(hub):
    def unreachable(rows):
        raise ConnectionError("no route to the Hub\nand more")

    hub.change = staticmethod(unreachable)
    with pytest.raises(RunFailed, match="aime_2024 .train. cannot be loaded: no route to the Hub$") as caught:
        load_suite("aime24")
    assert "--data-dir" in caught.value.hint
