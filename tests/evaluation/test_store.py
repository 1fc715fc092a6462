"""Reading results: ours and the reference's, and a sentence for every folder that is none."""

import json

import pytest

from grail_cli.console import Console
from grail_cli.errors import GrailError
from grail_cli.evaluation.regrade import regrade_folder
from grail_cli.evaluation.store import read_results, reference_suite
from tests.evaluation.stub import run


def reference_folder(folder):
    """A folder as the reference's evaluation writes it, with its fault on lists."""
    folder.mkdir()
    rows = [
        {
            "question": "q1",
            "gt_answer": "1/2",
            "generated_solutions": [
                {"solution": r"\boxed{0.5}", "pred_answer": "0.5", "completion_tokens": 9},
                {"solution": "none", "pred_answer": None, "completion_tokens": 3},
            ],
        },
        {
            "question": "q1",
            "gt_answer": "7",
            "generated_solutions": [{"solution": r"\boxed{8}", "pred_answer": "8", "completion_tokens": 9}]
            * 2,
        },
    ]
    (folder / "result-modelx-math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    listed = {
        "question": "q",
        "gt_answer": "['$\\\\frac{10}{3}$']",
        "generated_solutions": [
            {"solution": r"\boxed{\frac{10}{3}}", "pred_answer": "x", "completion_tokens": 1}
        ],
    }
    (folder / "result-modelx-olympiadbench.jsonl").write_text(json.dumps(listed) + "\n")
    return folder


def test_the_references_folder_is_read(tmp_path):
    results = read_results(reference_folder(tmp_path / "modelx"))
    assert results.label == "modelx" and set(results.suites) == {"math", "olympiadbench"}
    assert len(results.suites["math"].problems[0]["generated_solutions"]) == 2 and results.manifest is None


@pytest.mark.parametrize(
    ("name", "suite"),
    [
        ("result-m-aime24.jsonl", "aime24"),
        ("result-minerva_math-m.jsonl", "minerva_math"),
        ("result-m-own.jsonl", "own"),
    ],
)
def test_the_suite_is_found_in_a_file_name(name, suite):
    assert reference_suite(name, "m") == suite


def test_the_references_folder_is_graded_into_a_copy_and_left_alone(tmp_path):
    folder = reference_folder(tmp_path / "modelx")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    document = regrade_folder(folder, tmp_path / "out", "lenient", Console(quiet=True))
    assert document["samples"] == 5 and document["changed"] == []
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    results = read_results(tmp_path / "out/modelx")
    verdicts = [
        [s["verdict"] for s in line["generated_solutions"]] for line in results.suites["math"].problems
    ]
    assert verdicts == [["correct", "no_box"], ["wrong", "wrong"]]
    assert results.suites["olympiadbench"].problems[0]["generated_solutions"][0]["verdict"] == "correct"
    assert results.summary["math"]["acc@2"] == 0.25


def test_grading_again_says_what_changed_and_by_which_rule(tmp_path):
    run(tmp_path, n=1, limit=3)
    path = tmp_path / "tiny/arith/samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["generated_solutions"][0] |= {
        "solution": rf"\boxed{{{lines[1]['gt_answer']}.0}}",
        "verdict": "wrong",
        "correct": False,
    }
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    document = regrade_folder(tmp_path / "tiny", tmp_path, "lenient", Console(quiet=True))
    assert document["changed"] == [
        {
            "suite": "arith",
            "id": "arith/0001",
            "sample": 0,
            "before": "wrong",
            "after": "correct",
            "rule": "number",
        }
    ]
    assert read_results(tmp_path / "tiny").summary["arith"]["acc@1"] > 0


def test_grading_again_without_a_change_leaves_the_files_byte_for_byte(tmp_path):
    run(tmp_path)
    paths = [tmp_path / "tiny/arith/samples.jsonl", tmp_path / "tiny/eval_summary.json"]
    before = [path.read_bytes() for path in paths]
    regrade_folder(tmp_path / "tiny", tmp_path, "lenient", Console(quiet=True))
    assert [path.read_bytes() for path in paths] == before


def test_a_folder_that_is_none_is_a_sentence(tmp_path):
    with pytest.raises(GrailError, match="no such folder"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(GrailError, match="no results here"):
        read_results(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(GrailError, match="a file, where a folder"):
        read_results(tmp_path / "file")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"question": "q", "gt_answer": "1"}, "has no 'generated_solutions'"),
        ({"question": "q", "gt_answer": "1", "generated_solutions": "x"}, "no list of objects"),
    ],
)
def test_a_line_of_another_kind_is_named(tmp_path, line, words):
    (tmp_path / "result-m-math.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(GrailError, match=words) as caught:
        read_results(tmp_path)
    assert caught.value.where.endswith(":1")


def test_an_id_that_comes_twice_is_named(tmp_path):
    line = json.dumps({"id": "a", "question": "q", "gt_answer": "1", "generated_solutions": []})
    (tmp_path / "s").mkdir()
    (tmp_path / "s/samples.jsonl").write_text(f"{line}\n{line}\n")
    with pytest.raises(GrailError, match="'a' comes in lines 1 and 2"):
        read_results(tmp_path)
