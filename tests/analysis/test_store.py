import csv
import json

import numpy as np
import pytest

from grail_cli.analysis.records import Rollout, take_coverage
from grail_cli.analysis.store import (
    fingerprint,
    read_finished,
    read_tokens,
    token_line,
    write_table,
    write_tokens,
)
from grail_cli.errors import GrailError

from .made import many, scored


def test_tokens_come_back_as_they_were_written_with_faulty_ones_in_their_place(tmp_path):
    rollouts = many(3)
    bad = Rollout("bad", (), (1, 2), fault="id outside the vocabulary: 9 of 5")
    write_tokens(tmp_path / "tokens.jsonl", [rollouts[0].rollout, bad, *(s.rollout for s in rollouts[1:])], rollouts)
    lines = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["p0#0", "bad", "p0#1", "p0#2"]
    assert lines[1]["scores"] is None and "outside" in lines[1]["error"]
    back, faulty = read_tokens(tmp_path / "tokens.jsonl")
    assert faulty[0].fault == bad.fault
    for one, other in zip(rollouts, back, strict=True):
        assert (one.rollout, one.tokens, one.regions, one.boxes) == (other.rollout, other.tokens, other.regions, other.boxes)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)
        np.testing.assert_allclose(one.entropy, other.entropy, rtol=1e-6)


def test_numbers_that_are_not_finite_are_null_and_counted(tmp_path):
    one = scored([1.0, 1.0, 1.0], entropy=[0.1, float("nan"), 0.2])
    write_tokens(tmp_path / "tokens.jsonl", [one.rollout], [one])
    assert json.loads((tmp_path / "tokens.jsonl").read_text())["entropy"] == [0.1, None, 0.2]
    assert np.isnan(read_tokens(tmp_path / "tokens.jsonl")[0][0].entropy[1])
    assert "entropy is not a number, the model overflows" in take_coverage([one], []).remarks


def test_a_line_has_lists_as_long_as_the_completion_and_null_regions_without_a_box():
    line = token_line(scored([1.0, 2.0, 3.0], answer=()))
    assert line["regions"] is None
    assert {len(line[k]) for k in ("token_ids", "tokens", "scores", "weights")} == {3}


def test_tables_are_blank_where_a_number_is_missing(tmp_path):
    write_table(tmp_path, "t", [{"a": float("nan"), "b": np.float64(1.5)}, {"a": 2.0, "c": "x, y"}])
    assert json.loads((tmp_path / "t.json").read_text()) == [{"a": None, "b": 1.5}, {"a": 2.0, "c": "x, y"}]
    assert list(csv.DictReader(open(tmp_path / "t.csv"))) == [{"a": "", "b": "1.5", "c": ""}, {"a": "2.0", "b": "", "c": "x, y"}]


def test_the_fingerprint_changes_with_rollouts_settings_and_weights(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"1")
    r = [Rollout("a", (1,), (2,))]
    mark = fingerprint(str(tmp_path), r, {"std": 0.5})
    assert mark == fingerprint(str(tmp_path), r, {"std": 0.5})
    assert mark != fingerprint(str(tmp_path), r, {"std": 0.6})
    assert mark != fingerprint(str(tmp_path), [Rollout("a", (1,), (3,))], {"std": 0.5})
    (tmp_path / "model.safetensors").write_bytes(b"22")
    assert mark != fingerprint(str(tmp_path), r, {"std": 0.5})


def test_only_a_finished_folder_with_the_same_fingerprint_is_read_back(tmp_path):
    assert read_finished(tmp_path, "m") is None
    (tmp_path / "tokens.jsonl").write_text("")
    (tmp_path / "summary.json").write_text(json.dumps({"schema_version": 1, "fingerprint": "m"}))
    assert read_finished(tmp_path, "m")["fingerprint"] == "m" and read_finished(tmp_path, "other") is None
    (tmp_path / "summary.json").write_text(json.dumps({"schema_version": 99, "fingerprint": "m"}))
    with pytest.raises(GrailError, match="format 1"):
        read_finished(tmp_path, "m")
