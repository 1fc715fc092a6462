"""Folders become models: our format and the reference's, torn, doubled, marked; problems paired."""

import json
import os

import pytest

from grail_cli.errors import Faults, GrailError
from grail_cli.evaluation.grade import Grader, Verdict
from grail_cli.reporting.collect import collect, flat

from . import folders


def no_grading(pairs):
    raise AssertionError(f"{len(pairs)} samples were graded")


def by_text(pairs):
    """A grader that compares the box's text with the gold's."""
    return [
        Verdict(
            "correct" if f"\\boxed{{{gold}}}" in text else "wrong",
            f"\\boxed{{{gold}}}" in text,
            "text",
            "x",
            0.0,
        )
        for gold, text in pairs
    ]


def gather(*paths, grade=no_grading):
    told = []
    return collect(paths, grade, told.append), told


def test_graded_samples_are_read_and_never_graded_again(tmp_path):
    (model,), told = gather(folders.ours(tmp_path / "base", {"math": ["cwn"], "amc23": ["ccc"]}))
    assert [sample.verdict for sample in model.suites["math"][0].samples] == ["correct", "wrong", "no_box"]
    assert model.suites["math"][0].id == "math-0" and model.suites["math"][0].samples[2].finish == "length"
    assert model.settings == {"settings.temperature": 0.6, "settings.n": 3} and told == []


def test_the_references_files_are_graded_and_said_to_be(tmp_path):
    folder = folders.reference(tmp_path / "ref", "aime24", [("q1", "5", ["5", "6"]), ("q2", "7", ["8", "7"])])
    (model,), told = gather(folder, grade=by_text)
    assert [[s.verdict for s in p.samples] for p in model.suites["aime24"]] == [
        ["correct", "wrong"],
        ["wrong", "correct"],
    ]
    assert [problem.id for problem in model.suites["aime24"]] == ["row 1", "row 2"]
    assert told == ["ref: 4 samples carry no verdict and were graded now."]


def test_a_sample_that_only_says_whether_it_is_correct_is_taken_at_its_word(tmp_path):
    folder = folders.reference(tmp_path / "ref", "aime24", [("q", "5", ["5", "6"])])
    file = next(folder.glob("*.jsonl"))
    line = json.loads(file.read_text())
    line["generated_solutions"] += [{"solution": "?", "pred_answer": None}]
    for sample, correct in zip(line["generated_solutions"], (True, False, False), strict=True):
        sample["correct"] = correct
    folders.write_lines(file, [line])
    (model,), _ = gather(folder)
    assert [sample.verdict for sample in model.suites["aime24"][0].samples] == ["correct", "wrong", "no_box"]


def test_problems_without_ids_pair_by_question_even_when_a_text_comes_twice(tmp_path):
    folders.reference(
        tmp_path / "ref",
        "amc23",
        [("Same?", "7", ["7"]), ("Problem 1 of amc23?", "7", ["7"]), ("Same?", "7", ["8"])],
    )
    ours = folders.ours(tmp_path / "ours", {})
    lines = [folders.line(i, "c") for i in range(3)]
    lines[0]["question"] = lines[2]["question"] = "Same?"
    folders.write_lines(ours / "amc23" / "samples.jsonl", lines)
    models, _ = gather(tmp_path, grade=by_text)
    by_label = {model.label: model for model in models}
    assert (
        [p.id for p in by_label["ref"].suites["amc23"]]
        == [p.id for p in by_label["ours"].suites["amc23"]]
        == ["amc23-0", "amc23-1", "amc23-2"]
    )


def test_golds_that_are_the_text_of_a_list_mark_the_suite_and_are_graded_by_their_entry(tmp_path):
    solutions = [r"\frac{10}{3}", "10/4"]
    folder = folders.reference(tmp_path / "ref", "olympiadbench", [("q", r"['$\\frac{10}{3}$']", solutions)])
    with Grader(workers=1) as grader:
        (model,), told = gather(folder, grade=grader.grade)
    assert model.marked == {"olympiadbench"}
    assert [sample.verdict for sample in model.suites["olympiadbench"][0].samples] == ["correct", "wrong"]
    assert "141 of 200" in told[1]


def test_a_suite_graded_against_list_texts_is_marked_with_the_way_to_mend_it(tmp_path):
    line = folders.line(0, "ccw", "olympiadbench") | {"gt_answer": "['$\\\\frac{10}{3}$']"}
    folders.write_lines(tmp_path / "m" / "olympiadbench" / "samples.jsonl", [line])
    (model,), told = gather(tmp_path / "m")
    assert model.marked == {"olympiadbench"} and "grail eval --regrade" in told[0]


def test_a_list_of_one_entry_graded_by_our_own_grader_is_not_marked(tmp_path):
    line = folders.line(0, "ccw", "olympiadbench") | {"gt_answer": "['7']"}
    folder = folders.ours(tmp_path / "m", {}, {"settings": {"grader": "1"}})
    folders.write_lines(folder / "olympiadbench" / "samples.jsonl", [line])
    (model,), told = gather(folder)
    assert model.marked == frozenset() and told == []


def test_a_torn_last_line_is_left_out_and_said(tmp_path):
    folder = folders.reference(tmp_path / "ref", "amc23", [("q1", "5", ["5"]), ("q2", "5", ["5"])])
    file = next(folder.glob("*.jsonl"))
    file.write_bytes(file.read_bytes()[:-20])
    (model,), told = gather(folder, grade=by_text)
    assert len(model.suites["amc23"]) == 1 and "the last line of result-amc23-3.jsonl is torn" in told[0]


def test_a_summary_older_than_its_samples_is_said_to_be(tmp_path):
    folder = folders.ours(tmp_path / "m", {"amc23": ["c"], "math": ["c"]})
    (folder / "eval_summary.json").write_text("{}")
    os.utime(folder / "eval_summary.json", ns=(1, (folder / "math/samples.jsonl").stat().st_mtime_ns - 1))
    os.utime(folder / "amc23/samples.jsonl", ns=(1, 2))
    os.utime(folder / "eval_summary.json", ns=(1, 3))
    _, told = gather(folder)
    assert told == [
        "m: eval_summary.json is older than math/samples.jsonl; the numbers here are computed from the "
        "samples."
    ]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [lines[0], lines[0]], "the id 'amc23-0' comes in lines 1 and 2"),
        (lambda lines: [{"text": "x"}], "no 'question'"),
        (lambda lines: [{**lines[0], "generated_solutions": "abc"}], "no list of objects"),
        (lambda lines: [[1, 2]], "is a list, where a JSON object is needed"),
    ],
)
def test_a_damaged_file_is_one_sentence_with_file_and_line(tmp_path, damage, words):
    folder = folders.ours(tmp_path / "m", {"amc23": ["c", "w"]})
    file = folder / "amc23" / "samples.jsonl"
    folders.write_lines(file, damage([json.loads(line) for line in file.read_text().splitlines()]))
    with pytest.raises(GrailError, match=words) as caught:
        gather(folder)
    assert "samples.jsonl:" in caught.value.where and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"solution": 5}, "'solution' of sample 1 is a int, where text is needed"),
        ({"completion_tokens": "many"}, "'completion_tokens' of sample 1 is 'many'"),
        ({"verdict": "maybe"}, "the verdict of sample 1 is 'maybe'; allowed: correct, wrong, no_box"),
    ],
)
def test_a_sample_of_the_wrong_shape_is_named_by_problem_and_place(tmp_path, change, words):
    line = folders.line(0, "cw")
    line["generated_solutions"][1] |= change
    folders.write_lines(tmp_path / "m" / "amc23" / "samples.jsonl", [folders.line(1, "cc"), line])
    with pytest.raises(GrailError, match=words) as caught:
        gather(tmp_path / "m")
    assert caught.value.where.endswith("m, amc23, problem 2")


@pytest.mark.parametrize("name", ["manifest.json", "eval_summary.json"])
def test_a_manifest_or_summary_of_the_wrong_kind_is_a_sentence(tmp_path, name):
    folder = folders.ours(tmp_path / "m", {"amc23": ["c"]})
    (folder / name).write_text("[1, 2]")
    with pytest.raises(GrailError, match="no JSON object") as caught:
        gather(folder)
    assert caught.value.where.endswith(name)
    (folder / name).write_text("{torn")
    with pytest.raises(GrailError, match="not a JSON document"):
        gather(folder)


def test_a_suite_that_is_still_being_sampled_is_said_to_be(tmp_path):
    folder = folders.ours(tmp_path / "m", {"amc23": ["c"]})
    folders.write_lines(folder / "math" / "samples.journal.jsonl", [{"id": "x", "sample": 0}])
    (model,), told = gather(folder)
    assert list(model.suites) == ["amc23"]
    assert told == ["m: math is still being sampled; what is not finished is left out."]


def test_binary_rubbish_under_the_right_name_is_a_sentence(tmp_path):
    folder = folders.ours(tmp_path / "m", {"amc23": ["c"]})
    (folder / "amc23" / "samples.jsonl").write_bytes(b"PK\x03\x04\xff\xfe\x00\nmore\n")
    with pytest.raises(GrailError, match="no JSON object"):
        gather(folder)


def test_faults_of_several_folders_come_together(tmp_path):
    for name in ("a", "b"):
        folder = folders.ours(tmp_path / name, {"amc23": ["c"]})
        (folder / "amc23" / "samples.jsonl").write_text("{}\n")
    with pytest.raises(Faults) as caught:
        gather(tmp_path)
    assert len(caught.value.faults) == 2


def test_a_manifest_becomes_dotted_keys_and_long_texts_are_cut():
    assert flat({"a": {"b": 1, "c": [1, "x"]}, "d": None, "e": "y" * 400}) == {
        "a.b": 1,
        "a.c": '[1, "x"]',
        "d": None,
        "e": "y" * 300 + " ...",
    }
