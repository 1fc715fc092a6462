"""Suites: exact rows from any source, guessed fields, and a sentence for every bad file."""

import json

import pytest

from grail_cli.errors import GrailError
from grail_cli.evaluation.benchmarks import (
    PAPER,
    SUITES,
    fingerprint,
    load_suite,
    manifest,
    suite_names,
    text_hash,
)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_six_suites_have_the_papers_rows_in_order(shared):
    sizes = {name: len(load_suite(name, str(shared / "bench"))[1]) for name in PAPER}
    assert sizes == {
        "aime24": 30,
        "amc23": 40,
        "math": 500,
        "minerva_math": 272,
        "college_math": 200,
        "olympiadbench": 200,
    }
    ids = json.loads((shared / "bench" / "college_math_200_ids.json").read_text())
    assert [p.id for p in load_suite("college_math", str(shared / "bench"))[1]] == [
        f"{book}/{number}" for book, number in ids
    ]
    ids = json.loads((shared / "bench" / "olympiadbench_200_ids.json").read_text())
    assert [p.id for p in load_suite("olympiadbench", str(shared / "bench"))[1]] == [str(i) for i in ids]


def test_golds_are_plain_text(shared):
    amc = load_suite("amc23", str(shared / "bench"))[1]
    assert amc[0].gold == "27"
    gsm = load_suite("gsm8k", str(shared / "bench"))[1]
    assert gsm[0].gold == "18"
    olympiad = {p.id: p.gold for p in load_suite("olympiadbench", str(shared / "bench"))[1]}
    assert not any(gold.startswith("[") and "'" in gold for gold in olympiad.values())


def test_the_order_and_extra_columns_of_a_source_change_nothing(shared, tmp_path):
    rows = [json.loads(line) for line in (shared / "bench" / "aime24.jsonl").read_text().splitlines()]
    write(tmp_path / "aime24.jsonl", [{**row, "more": 1} for row in reversed(rows)])
    assert fingerprint(load_suite("aime24", str(tmp_path))[1]) == fingerprint(
        load_suite("aime24", str(shared / "bench"))[1]
    )


def test_a_changed_question_or_gold_is_refused(shared, tmp_path):
    rows = [json.loads(line) for line in (shared / "bench" / "aime24.jsonl").read_text().splitlines()]
    write(tmp_path / "aime24.jsonl", [{**rows[0], "problem": "What is 1+1?"}, *rows[1:]])
    with pytest.raises(GrailError, match="1 of 30 questions are not there"):
        load_suite("aime24", str(tmp_path))
    write(tmp_path / "aime24.jsonl", [{**rows[0], "answer": "000"}, *rows[1:]])
    with pytest.raises(GrailError, match="1 golds differ"):
        load_suite("aime24", str(tmp_path))


def test_the_manifest_holds_hashes_and_no_texts():
    for name, facts in manifest().items():
        assert len(facts["rows"]) == SUITES[name].rows
        assert all(len(row) == 3 and len(row[1]) == len(row[2]) == 16 for row in facts["rows"])


def test_blanks_do_not_change_a_hash():
    assert text_hash("a  b\n") == text_hash("a b")


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q", "answer": "1"},
        {"problem": "q", "solution": r"so \boxed{1}"},
        {"prompt": "q", "gold": 1},
        {"question": "q", "answer": "text #### 1"},
        {"prompt": [{"role": "user", "content": "q"}], "answer": "1"},
    ],
)
def test_a_local_files_fields_are_guessed_and_told(tmp_path, row):
    told = []
    name, problems = load_suite(f"mine={write(tmp_path / 'x.jsonl', [row])}", None, told.append)
    assert name == "mine" and (problems[0].question, problems[0].gold, problems[0].id) == ("q", "1", "0")
    assert "question =" in told[0]


def test_a_path_is_a_suite_called_like_its_file(tmp_path):
    assert load_suite(str(write(tmp_path / "set-a.jsonl", [{"question": "q", "answer": "1"}])))[0] == "set-a"


def test_the_arithmetic_suites_need_no_file():
    name, problems = load_suite("arith")
    assert name == "arith" and len(problems) == 200 and len({p.id for p in problems}) == 200


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"text": "q", "answer": "1"}], "no column with a question; there are: text, answer"),
        ([{"question": "q", "x": "1"}], "no column with a gold answer"),
        ([], "no rows"),
        ([{"question": "q", "answer": ["1"]}, {"question": "r", "answer": ["1", "2"]}], "list of 2 answers"),
        ([{"question": "q", "answer": "1"}, {"question": "q2", "answer": None}], "line 2"),
        (
            [{"id": 1, "question": "q", "answer": "1"}, {"id": 1, "question": "r", "answer": "1"}],
            "comes twice",
        ),
    ],
)
def test_a_bad_file_is_a_sentence(tmp_path, rows, words):
    with pytest.raises(GrailError, match=words):
        load_suite(f"mine={write(tmp_path / 'x.jsonl', rows)}")


def test_an_unknown_suite_names_the_nearest(tmp_path):
    with pytest.raises(GrailError) as caught:
        load_suite("amie24")
    assert "aime24" in caught.value.hint
    with pytest.raises(GrailError, match="no file aime25.jsonl"):
        load_suite("aime25", str(tmp_path))
    assert set(PAPER) < set(suite_names())
