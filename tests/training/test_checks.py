"""Faults are found before anything is loaded, all of them at once."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from grail_cli.console import Console
from grail_cli.errors import GrailError
from grail_cli.presets.load import load_preset
from grail_cli.training import preview
from grail_cli.training.checks import check_run
from grail_cli.training.data import load_problems

from .conftest import SMALL

GOOD = [f"{key}={value}" for key, value in {**SMALL, "train.reward": "math"}.items()]


def faults(tmp_path, *sets) -> list[GrailError]:
    report = check_run(load_preset(None, sets=[*GOOD, *sets]), tmp_path / "run")
    return report.faults + report.missing


def test_a_good_run_has_no_fault_and_shows_an_example_prompt(tmp_path, problems):
    report = check_run(load_preset(None, sets=[*GOOD, f"data.train={problems}"]), tmp_path / "run")
    assert report.faults == [] and report.missing == [] and report.problems == 10
    first = json.loads(problems.read_text().splitlines()[0])["prompt"]
    assert first in report.facts["example_prompt"] and report.facts["golds_bad"] == 0


EIGHT = [
    "train.num_generations=7",
    "train.epsilon=2",
    "data.train=nowhere.jsonl",
    "model.path=./no-model",
    "launch.offload=all",
    "train.loss_type=vespo",
    "launch.gpus=0,1,2",
    "train.vllm_enable_sleep_mode=true",
]


def test_eight_planted_faults_give_eight_lines_and_exit_2_quickly_without_torch(tmp_path):
    sets = [part for text in [*GOOD, *EIGHT] for part in ("--set", text)]
    (tmp_path / "mine.yaml").write_text("description: planted\n")
    code = ("import sys; from grail_cli.cli import app; sys.argv = ['grail', *sys.argv[1:]]\n"
            "try: app()\nfinally: print('torch' in sys.modules, file=sys.stdout)")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--preset", "mine.yaml", "--check", "--out", "run", *sets],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert time.monotonic() - began < 10
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 8, done.stderr
    for place in (
        "train.per_device_train_batch_size",
        "train.epsilon",
        "nowhere.jsonl",
        "model.path",
        "launch.offload",
        "train.loss_type",
        "launch.gpus",
        "train.vllm_enable_sleep_mode",
    ):
        assert any(line.startswith(f"error: {place}") for line in lines), place
    assert done.stdout.strip().endswith("False")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "sets, where, words",
    [
        (
            ["train.vllm_importance_sampling_correction=true"],
            "train.vllm_importance_sampling_correction",
            "train.sampler is hf",
        ),
        (
            [
                "train.vllm_importance_sampling_correction=true",
                "train.sampler=vllm_colocate",
                "train.top_k=50",
            ],
            "train.vllm_importance_sampling_correction",
            "biased when top_k truncates",
        ),
        (["train.loss_type=luspo"], "train.loss_type", "by sequence"),
        (["launch.machines=2"], "launch.main_port", "must be given"),
        (
            ["launch.machines=2", "launch.rank=2", "launch.main_port=29500"],
            "launch.rank",
            "not below launch.machines 2",
        ),
        (["train.keep_every=4", "train.save_steps=3"], "train.keep_every", "no multiple"),
        (
            ["model.lora_rank=8", "launch.zero=3", "train.gradient_checkpointing=true"],
            "launch.zero",
            "re-entrantly",
        ),
        (
            ["train.sampler=vllm_server", "train.vllm_server_gpus=0,1", "launch.gpus=1"],
            "train.vllm_server_gpus",
            "GPUs 1 are",
        ),
        (["train.max_completion_length=100000"], "train.max_completion_length", "prompts have more than"),
        (["train.reward=no_such_module:reward"], "train.reward", "cannot be imported"),
        (["train.reward=json:loads"], "train.reward", "raised TypeError"),
    ],
)
def test_combinations_that_cannot_work(tmp_path, problems, sets, where, words):
    found = faults(tmp_path, f"data.train={problems}", *sets)
    assert any(fault.where == where and words in fault.message for fault in found), [
        fault.line() for fault in found
    ]


def rows(tmp_path, *items) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return f"data.train={path}"


def test_a_missing_column_is_named_with_those_that_exist(tmp_path):
    found = faults(tmp_path, rows(tmp_path, {"question": "1+1?", "solution": "2"}))
    assert "no column 'prompt'; the columns are 'question', 'solution'" in found[0].message
    assert "data.prompt_column" in found[0].hint


def test_an_empty_file_and_a_row_without_answer_are_faults(tmp_path):
    assert "holds no problem" in faults(tmp_path, rows(tmp_path))[0].message
    many = [{"prompt": f"{n}+1?", "solution": str(n + 1)} for n in range(10)]
    assert (
        "row 11 has no answer"
        in faults(tmp_path, rows(tmp_path, *many, {"prompt": "?", "solution": ""}))[0].message
    )


def test_gold_answers_that_cannot_be_parsed_are_found(tmp_path):
    bad = [{"prompt": f"{n}+1?", "solution": "???"} for n in range(4)]
    good = [{"prompt": f"{n}+2?", "solution": str(n + 2)} for n in range(8)]
    found = faults(tmp_path, rows(tmp_path, *bad, *good))
    assert (
        "4 of 12 gold answers looked at cannot be matched" in found[0].message and "'???'" in found[0].message
    )


def test_prompts_that_do_not_fit_are_named_or_left_out(tmp_path):
    items = [{"id": f"p{n}", "prompt": f"{n}+1?", "solution": str(n + 1)} for n in range(8)]
    items.append({"id": "long", "prompt": "1 + " * 400 + "1 = ?", "solution": "401"})
    found = faults(tmp_path, rows(tmp_path, *items))
    assert "1 of 9 prompts have more than" in found[0].message and "long (" in found[0].message
    report = check_run(
        load_preset(None, sets=[*GOOD, rows(tmp_path, *items), "data.too_long=drop"]), tmp_path / "run"
    )
    assert report.faults == [] and report.problems == 8 and "they are left out" in " ".join(report.warnings)


def test_a_port_in_use_and_a_folder_that_cannot_be_written_are_found(tmp_path, problems):
    import socket

    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = faults(
            tmp_path,
            f"data.train={problems}",
            "launch.processes=2",
            "train.gradient_accumulation_steps=1",
            f"launch.main_port={port}",
        )
    assert [fault.message for fault in found] == [f"port {port} is in use."]


def test_a_folder_that_cannot_be_written_is_found(problems):
    found = check_run(load_preset(None, sets=[*GOOD, f"data.train={problems}"]), Path("/proc/run")).faults
    assert [fault.kind for fault in found] == ["not_writable"] and "--out /proc/run" in found[0].line()


def test_a_disk_that_is_too_small_for_the_checkpoints_is_found(tmp_path, problems, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    found = faults(tmp_path, f"data.train={problems}")
    assert [fault.kind for fault in found] == ["disk"] and "0 GB are free" in found[0].message


def test_a_lock_that_a_killed_build_left_is_found_before_it_is_waited_for(tmp_path, problems, monkeypatch):
    pytest.importorskip("deepspeed")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    lock = tmp_path / "extensions" / "cpu_adam" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    sets = (f"data.train={problems}", "launch.processes=2", "train.gradient_accumulation_steps=1", "launch.zero=2")
    assert faults(tmp_path, *sets) == []  # somebody compiles just now
    os.utime(lock, (0, 0))
    found = faults(tmp_path, *sets)
    assert [fault.kind for fault in found] == ["stale_lock"] and f"rm {lock}" in found[0].hint


def test_a_tokenizer_whose_bytes_are_not_known_is_a_fault(tmp_path, problems):
    import shutil

    from grail_cli.models import resolve_model

    shutil.copytree(resolve_model("tiny"), tmp_path / "model")
    path = tmp_path / "model" / "tokenizer.json"
    spec = json.loads(path.read_text())
    path.write_text(json.dumps({**spec, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}))
    found = faults(tmp_path, f"data.train={problems}", f"model.path={tmp_path / 'model'}")
    assert ["WordPiece" in fault.message for fault in found] == [True]


@pytest.mark.parametrize("dtype, sets, copies", [
    ("float32", ["train.save_steps=3"], 2 * 4),  # two whole ones: weights, two moments, room for a master copy
    ("bfloat16", ["train.save_steps=3"], 2 * 7),
    ("float32", ["train.save_steps=1", "train.keep_every=2"], 2 * 4 + 1),  # weights of steps 2, 4, 6 stay
])
def test_the_disk_that_checkpoints_need(tmp_path, problems, dtype, sets, copies):
    import shutil

    from grail_cli.models import resolve_model

    shutil.copytree(resolve_model("tiny"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dtype": dtype}))
    (tmp_path / "model" / "more.safetensors").write_bytes(b"")
    with open(tmp_path / "model" / "more.safetensors", "r+b") as file:
        file.truncate(10**9)  # a hole, no disk is taken
    report = check_run(
        load_preset(None, sets=[*GOOD, f"data.train={problems}", f"model.path={tmp_path / 'model'}", *sets]),
        tmp_path / "run", deep=False,
    )
    assert report.facts["disk_needed_gb"] == pytest.approx(copies, rel=0.02)


def test_a_model_folder_without_tokenizer_is_named(tmp_path, problems):
    import shutil

    from grail_cli.models import resolve_model

    shutil.copytree(resolve_model("tiny"), tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    found = faults(tmp_path, f"data.train={problems}", f"model.path={tmp_path / 'model'}")
    assert "has no tokenizer" in found[0].message


def test_a_metric_that_no_checkpoint_has_is_found_before_training(small, tmp_path):
    faults = check_run(small(**{"train.keep_best": "rewrad", "train.reward": "math"}), tmp_path / "run").faults
    assert [fault.where for fault in faults] == ["train.keep_best"]
    assert "reward, answer_found, groups_with_signal" in faults[0].line()
    good = {"math": "verdicts/correct", "tests.training.varied:reward": "rewards/tests.training.varied:reward/mean"}
    for (reward, name), (_, other) in zip(good.items(), reversed(good.items()), strict=True):
        assert not check_run(small(**{"train.keep_best": name, "train.reward": reward}), tmp_path / "run").faults
        assert check_run(small(**{"train.keep_best": other, "train.reward": reward}), tmp_path / "run").faults


def test_columns_with_names_of_trl_never_reach_a_reward_and_that_is_said(small, tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{i}+1?", "solution": str(i + 1), "completions": ["old"],
                                        "images": "x", "gold": "au", "level": 3}) + "\n" for i in range(10)))
    resolved = small(**{"data.train": path})
    rows = load_problems(resolved.preset.data).rows
    assert rows[0].keys() == {"problem_id", "problem", "gold", "level", "solution"} and rows[0]["gold"] == "1"
    report = check_run(resolved, tmp_path / "run")
    assert any("completions, images, gold" in warning for warning in report.warnings) and not report.faults


def test_the_preview_knows_the_launcher_it_runs_under(small, tmp_path, monkeypatch, capsys):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    preview.show(small(**{"data.train": "arith"}), tmp_path / "run", Console(json=True), full=True)
    launch = json.loads(capsys.readouterr().out)["preset"]["launch"]
    assert (launch["processes"], launch["machines"]) == (2, 1)
