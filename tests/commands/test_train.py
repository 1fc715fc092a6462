"""`grail train` as a person types it: bad input in one line and exit 2, a dry run that loads nothing."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from grail_cli.cli import app

TINY = ["train", "--preset", "tiny-grail"]


def grail(*arguments: str):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("arguments, words", [
    (["train"], "no preset was given"),
    (["train", "--preset", "tiny-grial"], "tiny-grail"),
    ([*TINY, "--set", "train.learning_rte=1"], "did you mean 'learning_rate'?"),
    ([*TINY, "--set", "train.max_steps=soon"], "train.max_steps"),
    ([*TINY, "--method", "magic"], "grail"),
    ([*TINY, "--set", "train.num_generations=7"], "does not hold whole groups"),
    ([*TINY, "--set", "data.train=nowhere.jsonl"], "nowhere.jsonl: no such file"),
    ([*TINY, "--set", "model.path=./nothing"], "no such folder"),
    (["train", "--resume", "nothing"], "holds no run to resume"),
    ([*TINY, "runs/x"], "two run folders were given"),
])
def test_bad_input_is_one_line_and_exit_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = grail(
        *arguments, *(["--out", "run"] if "--resume" not in arguments and len(arguments) > 1 else [])
    )
    assert done.exit_code == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and words in lines[0], done.stderr
    assert "Traceback" not in done.output and not (tmp_path / "run" / "manifest.json").exists()


def test_a_fault_with_json_is_one_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = grail(*TINY, "--set", "train.num_generations=7", "--check", "--json", "--out", "run")
    assert done.exit_code == 2 and "whole groups" in json.loads(done.stdout)["error"]["message"]


def test_a_dry_run_of_the_paper_preset_shows_everything_and_loads_nothing(tmp_path):
    code = (
        "import sys; sys.argv[0] = 'grail'; from grail_cli.cli import app\n"
        "try: app()\nfinally: print([m for m in ('torch', 'transformers', 'trl', 'datasets') if m in "
        "sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            "train",
            "--preset",
            "qwen3-grail",
            "--set",
            "credit.std=0.7",
            "--dry-run",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"
    for words in (
        "std: 0.7",
        "# --set",
        "# preset qwen3-grail",
        "8 completions x 8 micro-steps x 4 processes = 256 completions",
        "32 prompts x 8 = 256 rollouts, used for 4 optimiser steps",
        "accelerate launch --config_file",
        "missing here: ",
    ):
        assert words in done.stdout, words
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_with_json_is_one_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = json.loads(grail(*TINY, "--dry-run", "--json").stdout)
    assert (
        document["plan"]["completions_a_step"] == 128
        and document["origins"]["credit.method"] == "preset tiny-grail"
    )
    assert document["preset"]["train"]["max_steps"] == 60


def test_check_says_what_it_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = grail(*TINY, "--check", "--out", "run")
    assert done.exit_code == 0, done.output
    assert "example prompt (" in done.stdout and "nothing is missing here" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_sbatch_prints_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = grail("train", "--preset", "qwen3-grail", "--sbatch", "--out", "runs/x", "--quiet")
    assert done.exit_code == 0 and done.stdout.startswith("#!/bin/bash\n#SBATCH --job-name=grail-x\n")


def test_a_short_run_ends_with_its_result_and_the_next_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = grail(
        *TINY,
        "--out",
        "run",
        "--json",
        "--set",
        "train.max_steps=1",
        "--set",
        "train.per_device_train_batch_size=8",
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["step"] == 1 and result["checkpoint"] == "run/checkpoint-1"
    assert "next: grail eval --model run/checkpoint-1 --bench arith" in done.stderr
    again = grail(*TINY, "--out", "run")
    assert again.exit_code == 2 and "exists already" in again.stderr
