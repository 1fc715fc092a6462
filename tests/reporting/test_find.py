"""Which folders are models, what they are called, and a sentence for everything that is none."""

import pytest

from grail_cli.errors import Faults, GrailError
from grail_cli.reporting.find import find

from . import folders


def labels(*paths):
    return [found.label for found in find(paths)]


def test_a_folder_of_folders_gives_each_model_once_with_checkpoints_in_numeric_order(tmp_path):
    for name in ("run@step-100", "run@step-50", "base"):
        folders.ours(tmp_path / "results" / name, {"amc23": ["c"]})
    assert labels(tmp_path / "results") == ["base", "run@step-50", "run@step-100"]
    assert labels(tmp_path / "results" / "base", tmp_path / "results") == [
        "base",
        "run@step-50",
        "run@step-100",
    ]


def test_the_references_checkpoint_folders_become_steps_of_their_run(tmp_path):
    for run in ("grpo", "grail"):
        for step in (50, 100):
            folders.reference(tmp_path / run / f"checkpoint-{step}", "amc23", [("q", "1", ["1"])])
    assert [(f.label, f.run, f.step) for f in find([tmp_path / "grpo"])] == [
        ("grpo@step-50", "grpo", 50),
        ("grpo@step-100", "grpo", 100),
    ]
    assert labels(tmp_path) == ["grail@step-50", "grail@step-100", "grpo@step-50", "grpo@step-100"]


def test_equal_names_are_told_apart_by_their_parents(tmp_path):
    for place in ("seed1", "seed2"):
        folders.ours(tmp_path / place / "model", {"amc23": ["c"]})
    folders.ours(tmp_path / "other", {"amc23": ["c"]})
    assert labels(tmp_path) == ["other", "seed1/model", "seed2/model"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p / "absent", "no such folder"),
        (lambda p: p, "an empty folder"),
        (lambda p: [(p / "notes.txt").write_text("x"), p][1], "no results in it"),
        (
            lambda p: [(p / "report.xlsx").write_bytes(b"PK"), p / "report.xlsx"][1],
            "a file, where a folder with results is needed",
        ),
        (lambda p: folders.ours(p / "m", {"amc23": ["c"]}) / "amc23", "the folder of one suite"),
        (
            lambda p: [folders.write_lines(p / "m/amc23/samples.journal.jsonl", [{}]), p / "m"][1],
            "no suite is finished here yet",
        ),
    ],
)
def test_what_is_no_results_folder_is_refused_with_a_sentence(tmp_path, make, words):
    with pytest.raises(GrailError, match=words) as caught:
        find([make(tmp_path)])
    assert caught.value.exit_code == 2 and caught.value.where


def test_a_mistyped_name_gets_the_nearest_one(tmp_path):
    folders.ours(tmp_path / "qwen3-grail", {"amc23": ["c"]})
    with pytest.raises(GrailError, match="did you mean 'qwen3-grail'"):
        find([tmp_path / "qwen3-gral"])


def test_all_bad_paths_are_named_at_once(tmp_path):
    with pytest.raises(Faults) as caught:
        find([tmp_path / "a", tmp_path / "b"])
    assert len(caught.value.faults) == 2
