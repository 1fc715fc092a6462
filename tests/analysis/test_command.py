"""`grail analyze` as typed: one JSON document, faults in one line, the vectors through the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from grail_cli.cli import app


def grail(*words):
    return CliRunner().invoke(app, ["analyze", *map(str, words)])


@pytest.fixture
def rollouts(tmp_path, encode):
    path = tmp_path / "r.jsonl"
    rows = [{"id": "a", "prompt_ids": [60, 61], "completion_ids": encode("We get \\boxed{7}", end=True), "correct": False},
            {"id": "b", "prompt_ids": [60, 61], "completion_ids": encode("So \\boxed{8} then"), "correct": True},
            {"id": "c", "prompt_ids": [60, 61], "completion_ids": encode("nothing"), "correct": False}]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_standard_output_is_one_json_document_with_the_warnings(checkpoint, rollouts, tmp_path):
    done = grail("--model", checkpoint, "--rollouts", rollouts, "--out", tmp_path / "o", "--json", "--quiet")
    assert done.exit_code == 0, done.output
    doc = json.loads(done.stdout)
    assert doc["warnings"] == [f"{doc['checkpoints'][0]}: 1 of 3 rollouts left out: no complete box (e.g. c)"]
    assert doc["coverage"][doc["checkpoints"][0]]["usable"] == 2
    assert (tmp_path / "o" / "tokens.jsonl").is_file() and (tmp_path / "o" / "positional.json").is_file()


def test_the_table_says_what_was_read_and_where_it_went(checkpoint, rollouts, tmp_path):
    done = grail("--model", checkpoint, "--rollouts", rollouts, "--out", tmp_path / "o")
    assert "no complete box" in done.stdout and str(tmp_path / "o") in done.stdout


def test_one_rollout_is_shown_as_a_token_map(checkpoint, rollouts, tmp_path):
    done = grail("--model", checkpoint, "--rollouts", rollouts, "--out", tmp_path / "o", "--show", "a", "--series", "entropy")
    assert done.exit_code == 0 and "\\boxed{7}" in done.stdout.replace("\n", "") and "entropy:" in done.stdout
    done = grail("--model", checkpoint, "--rollouts", rollouts, "--out", tmp_path / "o", "--show", "zzz")
    assert done.exit_code == 2 and "zzz" in done.stderr


@pytest.mark.parametrize(("words", "told"), [
    ([], "--checkpoints RUN or --model CKPT"),
    (["--model", "tiny"], "--rollouts"),
    (["--model", "tiny", "--checkpoints", "x"], "not both"),
    (["--model", "tiny", "--rollouts", "absent.jsonl"], "absent.jsonl"),
    (["--model", "tiny", "--rollouts", ".", "--results", "r"], "--results"),
    (["--checkpoints", "absent"], "no such run folder"),
    (["--checkpoints", "absent", "--compare", "grial"], "grail"),
    (["--checkpoints", "absent", "--texts", "mine"], "texts"),
    (["--checkpoints", "absent", "--show", "first", "--series", "colour"], "colour"),
    (["--checkpoints", "absent", "--series", "score"], "--show"),
    (["--checkpoints", "absent", "--set", "credit.stdd=1"], "std"),
])
def test_faults_are_one_line_with_exit_code_two(words, told):
    done = grail(*words)
    assert done.exit_code == 2 and told in done.stderr and "Traceback" not in done.stderr
    as_json = json.loads(grail(*words, "--json").stdout)
    assert set(as_json["error"]) >= {"kind", "message", "hint", "where"}


def test_help_names_every_choice():
    text = grail("--help").stdout.replace("\n", " ")
    for word in ("own|shared", "grpo,grail,oar_g,entropy,shuffled", "score, entropy or logprob", "--faithfulness"):
        assert word in " ".join(text.split())


@pytest.mark.parametrize("setting", ["paper", "own position"])
def test_tokens_equal_the_vectors_through_the_command(shared, tmp_path, setting):
    data = json.loads((shared / "vectors" / "vectors.json").read_text())
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps({"id": r["name"], "prompt_ids": r["prompt_ids"], "advantage": r["advantage"],
                                        "completion_ids": r["completion_ids"]}) + "\n" for r in data["rollouts"]))
    sets = [w for k, v in {**data["paper"], **data["settings"][setting]}.items() for w in ("--set", f"credit.{k}={v}")]
    done = grail("--model", shared / "vectors" / "model", "--rollouts", path, "--out", tmp_path / "o", "--quiet", *sets)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "o" / "tokens.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [r["name"] for r in data["rollouts"]]
    for row, r in zip(rows, data["rollouts"], strict=True):
        expect = r["expect"][setting]
        assert row["regions"] == expect["regions"] and row["token_ids"] == r["completion_ids"]
        np.testing.assert_allclose(row["scores"], expect["scores"], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(row["weights"], expect["weights"], atol=1e-4)


def test_texts_that_a_file_of_rollouts_overrules_are_refused(checkpoint, rollouts):
    done = grail("--model", checkpoint, "--rollouts", rollouts, "--texts", "own")
    assert done.exit_code == 2 and "the same for every checkpoint" in done.stderr


def test_the_revision_of_a_hub_model_reaches_the_loaders_and_the_fingerprint():
    from grail_cli.analysis.options import options_of
    from grail_cli.presets import load_preset

    one, other = (options_of(load_preset(None, sets=[f"model.revision={r}"], environment={}), every_rollout=False)[0]
                  for r in ("v1", "v2"))
    assert one.source == {"revision": "v1", "trust_remote_code": False} and one.facts() != other.facts()
