"""Problems from files: columns, messages, order, fingerprints."""

import json

import pytest

from grail_cli.errors import GrailError
from grail_cli.presets.schema import DataSection
from grail_cli.training.data import load_problems, rows_from, to_dataset, too_long, without

ROWS = [{"id": f"p{n}", "prompt": f"{n} + 1?", "solution": n + 1, "level": n} for n in range(4)]


def test_jsonl_and_parquet_hold_the_same_problems(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    lines, table = (
        load_problems(DataSection(train=str(tmp_path / name))) for name in ("rows.jsonl", "rows.parquet")
    )
    assert lines.rows == table.rows and lines.fingerprint() == table.fingerprint()
    assert lines.rows[1] == {
        "id": "p1",
        "solution": 2,
        "level": 1,
        "problem_id": "p1",
        "problem": "1 + 1?",
        "gold": "2",
    }


def test_chat_messages_are_kept():
    turns = [{"role": "user", "content": "1 + 1?"}]
    found = rows_from([{"prompt": turns, "solution": "2"}], DataSection(), "here")
    assert found.rows[0]["problem"] == turns and found.rows[0]["problem_id"] == "0"


@pytest.mark.parametrize("value", [None, "", 3, [], [{"role": "user"}], ["text"]])
def test_a_row_that_is_no_problem_is_named(value):
    with pytest.raises(GrailError, match="row 2: 'prompt' is"):
        rows_from([ROWS[0], {"prompt": value, "solution": "2"}], DataSection(), "here")


def test_the_limit_takes_the_first_rows():
    assert len(rows_from(ROWS, DataSection(limit=2), "here")) == 2


def test_the_fingerprint_sees_a_changed_answer_and_the_order():
    first = rows_from(ROWS, DataSection(), "a").fingerprint()
    assert first == rows_from(ROWS, DataSection(), "b").fingerprint()
    assert first != rows_from([*ROWS[:3], ROWS[3] | {"solution": 9}], DataSection(), "a").fingerprint()
    assert first != rows_from(ROWS[::-1], DataSection(), "a").fingerprint()


def test_only_prompts_that_could_be_too_long_are_tokenised():
    from types import SimpleNamespace

    problems = rows_from(
        [{"prompt": "x" * size, "solution": "1"} for size in (3, 30, 5, 50)], DataSection(), "here"
    )
    asked = []

    def render(problem):
        asked.append(len(problem))
        return SimpleNamespace(text=f"<{problem}>", ids=list(range(len(problem) // 2)))

    assert too_long(problems, render, 20) == [(3, 25)]
    assert asked == [3, 30, 50]  # the first for the template's share, then those of more than 20 bytes
    assert [row["problem_id"] for row in without(problems, [3]).rows] == ["0", "1", "2"]


def test_the_trainers_data_set_is_row_numbers():
    assert to_dataset(rows_from(ROWS, DataSection(), "here"))["row"] == [0, 1, 2, 3]
