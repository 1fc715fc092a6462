import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grail_cli.analysis.rollouts import (
    checked,
    parquet_rollouts,
    read_rollouts,
    row_rollout,
    sample_rollouts,
    vocabulary_mark,
)
from grail_cli.errors import GrailError
from grail_cli.prompts import PromptSettings

from .conftest import make_checkpoint

PLAIN = PromptSettings()


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_ids_are_taken_as_they_are_and_text_is_encoded_and_marked(tokenizer, encode):
    given = row_rollout({"prompt_ids": [5], "completion_ids": [6, 7], "id": 3}, "line 1", tokenizer, PLAIN)
    assert (given.id, given.prompt_ids, given.completion_ids, given.encoded_from_text) == ("3", (5,), (6, 7), False)
    text = row_rollout({"prompt": "ab", "completion": "cd"}, "line 2", tokenizer, PLAIN)
    assert text.prompt_ids == tuple(encode("ab")) and text.completion_ids == tuple(encode("cd"))
    assert text.encoded_from_text and text.id == "line 2"


def test_chat_messages_go_through_the_template(tokenizer, encode):
    row = {"prompt": [{"role": "user", "content": "hi"}], "completion": [{"role": "assistant", "content": "yo"}]}
    found = row_rollout(row, "x", tokenizer, PLAIN)
    assert found.prompt_ids == tuple(encode("hi\n")) and found.completion_ids == tuple(encode("yo"))


def test_chat_messages_take_template_and_thinking_of_the_run_and_no_words_twice(tokenizer, encode):
    """They are what the model was asked: suffix and system turn are in them where there were any."""
    template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}{% endfor %}{{ '<t>' if enable_thinking }}"
    run = PromptSettings(suffix=" Box it.", system="Be brief.", thinking=True, chat_template=template)
    row = {"prompt": [{"role": "user", "content": "hi Box it."}], "completion": "yo"}
    assert row_rollout(row, "x", tokenizer, run).prompt_ids == tuple(encode("user:hi Box it.<t>"))


@pytest.mark.parametrize(("row", "sign"), [
    ({"advantage": -0.5}, "wrong"), ({"advantage": 0.5}, "correct"), ({"reward": 1.0}, "correct"),
    ({"reward": 0}, "wrong"), ({"correct": True, "advantage": -1}, "correct"), ({}, None)])
def test_the_sign_comes_from_verdict_reward_or_advantage(row, sign, tokenizer):
    assert row_rollout({"prompt_ids": [5], "completion_ids": [6], **row}, "x", tokenizer, PLAIN).sign == sign


@pytest.mark.parametrize(("row", "word"), [
    ({"completion_ids": [1]}, "prompt_ids"), ({"prompt_ids": [1]}, "completion_ids"),
    ({"prompt_ids": [1], "completion_ids": ["a"]}, "whole numbers"),
    ({"prompt_ids": [1], "completion_ids": [1], "advantage": "high"}, "advantage"),
    ({"prompt_ids": [1], "completion_ids": [1], "advantage": float("nan")}, "finite"),
    ({"prompt_ids": [1], "completion_ids": [1], "correct": "yes"}, "correct")])
def test_an_unreadable_row_is_kept_with_its_fault(row, word, tokenizer):
    found = row_rollout(row, "line 4", tokenizer, PLAIN)
    assert found.fault.startswith("unreadable row") and word in found.fault and found.id == "line 4"


def test_ids_outside_the_vocabulary_and_empty_rows_are_faults_that_name_the_id(tokenizer):
    outside = checked(row_rollout({"prompt_ids": [5], "completion_ids": [6, 99999]}, "x", tokenizer, PLAIN), tokenizer)
    assert outside.fault == f"id outside the vocabulary: 99999 of {len(tokenizer)}"
    assert "-1" in checked(row_rollout({"prompt_ids": [-1], "completion_ids": [6]}, "x", tokenizer, PLAIN), tokenizer).fault
    assert checked(row_rollout({"prompt_ids": [5], "completion_ids": []}, "x", tokenizer, PLAIN), tokenizer).fault == "empty completion"
    padded = row_rollout({"prompt_ids": [5], "completion_ids": [200]}, "x", tokenizer, PLAIN)
    assert checked(padded, tokenizer, 150).fault.endswith("200 of 150")


def test_ids_written_by_another_tokenizer_do_not_spell_the_text_beside_them(tokenizer, encode):
    good = {"prompt_ids": [5], "completion_ids": encode("so 7", end=True), "completion": "so 7"}
    assert row_rollout(good, "x", tokenizer, PLAIN).fault == ""
    assert "another tokenizer" in row_rollout({**good, "completion_ids": encode("xyz")}, "x", tokenizer, PLAIN).fault


def test_samples_of_an_evaluation_become_a_rollout_each(tokenizer, encode):
    rows = [{"id": "7", "question": "q", "gt_answer": "4", "prompt_ids": [9, 9], "generated_solutions": [
        {"solution": "a", "completion_ids": encode("a"), "correct": True, "finish_reason": "stop", "sample": 0},
        {"solution": "b", "completion_ids": encode("b"), "correct": False, "finish_reason": "length", "sample": 1}]}]
    found = sample_rollouts(rows, tokenizer, PLAIN, "arith")
    assert [r.id for r in found] == ["arith/7#0", "arith/7#1"] and [r.sign for r in found] == ["correct", "wrong"]
    assert sample_rollouts([{**rows[0], "id": "arith/7"}], tokenizer, PLAIN, "arith")[0].id == "arith/7#0"
    assert [r.truncated for r in found] == [False, True] and found[0].prompt_ids == (9, 9)
    assert not any(r.fault for r in found)


def test_result_lines_of_the_reference_are_rendered_and_encoded(tokenizer, encode):
    rows = [{"question": "2+2?", "gt_answer": "4", "generated_solutions": [
        {"solution": "\\boxed{4}", "pred_answer": "4", "completion_tokens": 9}, {"solution": "", "pred_answer": None}]}]
    found = sample_rollouts(rows, tokenizer, PromptSettings(suffix=" Go."))
    assert found[0].prompt_ids == tuple(encode("2+2? Go.\n")) and found[0].encoded_from_text and found[0].correct
    assert found[1].fault == "empty completion"


def parquet(path, tokenizer, encode, **changes):
    columns = {"step": [1, 1], "problem_id": ["a", "b"], "prompt_ids": [[5], [5]],
               "completion": ["so 7", "so 8"], "completion_ids": [encode("so 7"), encode("so 8")],
               "reward": [1.0, None], "verdict": ["correct", "timeout"], "advantage": [0.5, None],
               "truncated": [False, True]} | changes
    pq.write_table(pa.table({k: v for k, v in columns.items() if v is not None}), path)
    return path


def test_logged_batches_are_read_with_their_verdicts(tmp_path, tokenizer, encode):
    found = list(parquet_rollouts(parquet(tmp_path / "step-000001.parquet", tokenizer, encode), tokenizer))
    assert [r.id for r in found] == ["step-000001#0", "step-000001#1"]
    assert [(r.correct, r.advantage, r.truncated) for r in found] == [(True, 0.5, False), (None, None, True)]


def test_a_torn_parquet_file_is_named_alone_and_counted_among_others(tmp_path, tokenizer, encode):
    whole = parquet(tmp_path / "step-000001.parquet", tokenizer, encode)
    torn = tmp_path / "step-000002.parquet"
    torn.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(GrailError) as error:
        read_rollouts(torn, tokenizer, PLAIN)
    assert "step-000002" in error.value.where and "not a whole parquet file" in error.value.message
    found = read_rollouts(tmp_path, tokenizer, PLAIN)
    assert [r.fault for r in found] == ["", "", "unreadable parquet file"] and found[-1].id == "step-000002.parquet"


def test_a_parquet_file_without_ids_names_the_columns_it_has(tmp_path, tokenizer, encode):
    path = parquet(tmp_path / "x.parquet", tokenizer, encode, completion_ids=None)
    with pytest.raises(GrailError, match="no column completion_ids; it has .*verdict"):
        read_rollouts(path, tokenizer, PLAIN)


def test_files_that_hold_nothing_or_do_not_exist_are_refused(tmp_path, tokenizer):
    with pytest.raises(GrailError, match="no rollouts"):
        read_rollouts(write(tmp_path / "void.jsonl", []), tokenizer, PLAIN)
    with pytest.raises(GrailError, match="no such file"):
        read_rollouts(tmp_path / "absent.parquet", tokenizer, PLAIN)
    with pytest.raises(GrailError, match="without .parquet"):
        read_rollouts(tmp_path, tokenizer, PLAIN)


def test_a_broken_line_is_named_with_its_number(tmp_path, tokenizer):
    path = tmp_path / "r.jsonl"
    path.write_text('{"prompt_ids": [5], "completion_ids": [6]}\n{oops\n{"prompt_ids": [5], "completion_ids": [6]}\n')
    with pytest.raises(GrailError) as error:
        read_rollouts(path, tokenizer, PLAIN)
    assert error.value.where.endswith("r.jsonl:2")


def test_the_mark_of_a_tokenizer_changes_with_its_vocabulary(tmp_path, tokenizer):
    from grail_cli.models import load_tokenizer

    other = load_tokenizer(str(make_checkpoint(tmp_path / "m", seed=0, extra_tokens=("<|x|>",))))
    assert vocabulary_mark(tokenizer) == vocabulary_mark(tokenizer) != vocabulary_mark(other)
