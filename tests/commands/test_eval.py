"""`grail eval`, `grail grade` and `grail bench` from outside: one document, true exit codes, sentences for
mistakes.
"""

import json
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from grail_cli.cli import app
from tests.evaluation.stub import run as evaluate_with_stub

runner = CliRunner()


def grail(*words: str, code: int = 0):
    done = runner.invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done


def document(*words: str, code: int = 0) -> dict:
    return json.loads(grail(*words, "--json", code=code).stdout)


def answers(tmp_path, rows):
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_grade_gives_one_result_a_line_in_order(tmp_path):
    path = answers(
        tmp_path,
        [
            {"id": "a", "gold": "1/2", "completion": r"\boxed{0.5}"},
            {"gold": "7", "completion": r"\boxed{8}"},
            {"id": "c", "gold": "7", "completion": "no"},
            {"id": "d", "gold": 7, "completion": r"\boxed{7.0}"},
        ],
    )
    results = document("grade", path)["results"]
    assert [(r["id"], r["correct"], r["verdict"]) for r in results] == [
        ("a", True, "correct"),
        (2, False, "wrong"),
        ("c", False, "no_box"),
        ("d", True, "correct"),
    ]
    assert all(set(r) == {"id", "correct", "verdict", "rule", "seconds"} for r in results)


def test_grade_can_be_strict(tmp_path):
    path = answers(tmp_path, [{"gold": "37\\%", "completion": r"\boxed{37}"}])
    assert [document("grade", path, *flags)["results"][0]["correct"] for flags in ([], ["--strict"])] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"gold": "1"}], "line 1 has no 'completion'; it has: gold"),
        ([{"gold": "1", "completion": 3}], "is no text"),
    ],
)
def test_grade_names_the_line_that_is_wrong(tmp_path, rows, words):
    assert words in document("grade", answers(tmp_path, rows), code=2)["error"]["message"]


def test_grade_without_its_file_is_a_sentence(tmp_path):
    assert "no such file" in document("grade", tmp_path / "none.jsonl", code=2)["error"]["message"]


def test_bench_list_names_sources_and_licences():
    suites = {row["name"]: row for row in document("bench", "list")["suites"]}
    assert (
        suites["math"]["rows"] == 500
        and suites["math"]["licence"]
        and "HuggingFaceH4/MATH-500" in suites["math"]["source"]
    )


def test_bench_check_reads_a_folder_and_finds_every_ideal_answer_right(shared):
    found = document("bench", "check", "aime24", "amc23", "--data-dir", shared / "bench")
    assert [(s["suite"], s["ideal_answers_right"], s["rows_checked"]) for s in found["suites"]] == [
        ("aime24", 30, True),
        ("amc23", 40, True),
    ]
    assert found["not_checked"] == []


def test_bench_check_says_which_suite_is_not_there(tmp_path):
    done = grail("bench", "check", "aime25", "--data-dir", tmp_path, code=2)
    assert "no file aime25.jsonl" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bench", "arith"], "no model was given"),
        (["--model", "tiny", "--bench", "mathh"], "no suite 'mathh'"),
        (["--model", "tiny", "--bench", "arith,arith"], "named twice"),
        (["--model", "nowhere/at/all", "--bench", "arith"], "no such folder"),
        (["--model", "tiny", "--model", "tiny", "--bench", "arith"], "are both called"),
        (
            ["--model", "tiny", "--bench", "arith", "--backend", "magic"],
            "allowed: auto, transformers, vllm, or a URL",
        ),
        (["--model", "tiny", "--bench", "arith", "--n", "0"], "n"),
        (
            ["--model", "tiny", "--bench", "arith", "--set", "eval.max_new_tokens=8192"],
            "context is 512 tokens",
        ),
        (["--model", "tiny", "--bench", "x=nowhere.jsonl"], "no such file"),
        (["--regrade", "results/x", "--mix-backends"], "--mix-backends would have no effect"),
        (["--regrade", "results/x", "--limit", "3"], "--limit would have no effect"),
        (["--model", "tiny", "--set", "data.prompt_suffix=x"], "data.prompt_suffix would have no effect"),
        (
            ["--model", "tiny", "--bench", "arith", "--backend", "http://127.0.0.1:9/v1"],
            "no OpenAI-compatible server",
        ),
    ],
)
def test_what_is_wrong_is_found_before_a_model_is_loaded(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in json.dumps(document("eval", *words, code=2)["error"])


def test_the_fault_of_a_short_context_names_what_to_type(tmp_path):
    words = ["--bench", "arith", "--limit", "3", "--out", tmp_path]
    error = document("eval", "--model", "tiny", *words, "--set", "eval.max_new_tokens=8192", code=2)["error"]
    said, _, room = error["hint"].rpartition("=")
    longest = int(error["message"].split("prompt takes ")[1].split()[0])
    assert said == "--set eval.max_new_tokens" and int(room) == 512 - longest > 400


def test_regrade_keeps_the_strictness_that_the_folder_was_graded_with(tmp_path):
    evaluate_with_stub(tmp_path, n=1, limit=3, sets=["eval.strictness=strict"])

    def strictness(*words):
        grail("eval", "--regrade", tmp_path / "tiny", *words)
        return json.loads((tmp_path / "tiny/manifest.json").read_text())["settings"]["strictness"]

    assert strictness() == "strict"
    assert strictness("--set", "eval.strictness=lenient") == "lenient"


def test_regrade_prints_what_changed(tmp_path):
    evaluate_with_stub(tmp_path, n=1, limit=3)
    path = tmp_path / "tiny/arith/samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["generated_solutions"][0] |= {"verdict": "correct", "correct": True}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = grail("eval", "--regrade", tmp_path / "tiny")
    assert (
        "3 samples graded, 1 verdicts changed" in done.stdout
        and "arith arith/0000 sample 0: correct -> wrong" in done.stdout
    )
    assert document("eval", "--regrade", tmp_path / "tiny")["regraded"][0]["changed"] == []


def test_another_backend_is_refused_with_the_difference_before_anything_is_loaded(tmp_path, monkeypatch):
    evaluate_with_stub(tmp_path, n=1, limit=2)
    manifest = json.loads((tmp_path / "tiny/manifest.json").read_text())
    words = ["--model", "tiny", "--bench", "arith", "--n", "1", "--limit", "3", "--out", tmp_path]
    words += [w for key in ("temperature", "top_p", "top_k", "min_p", "max_new_tokens")
              for w in ("--set", f"eval.{key}={manifest['settings']['sampling'][key]}")]
    monkeypatch.setattr("grail_cli.evaluation.open.in_process", None)  # opening it would be another fault
    error = document("eval", *words, "--backend", "transformers", code=2)["error"]
    assert "backend was stub, now transformers" in error["message"] and "--mix-backends" in error["hint"]


@pytest.mark.slow
def test_the_tiny_model_is_evaluated_and_the_table_says_so(tmp_path):
    words = ["eval", "--model", "tiny", "--bench", "arith", "--n", "2", "--limit", "4", "--out", tmp_path]
    scores = document(*words)["models"][0]["suites"]["arith"]
    assert scores["completions"] == 8 and scores["avg_tokens"] > 3
    done = grail(*words)
    assert "arith" in done.stdout and "acc %" in done.stdout
    assert "settings: tiny-grpo" in done.stderr
    summary = json.loads((tmp_path / "tiny/eval_summary.json").read_text())
    assert summary["arith"] == scores


@pytest.mark.slow
def test_sixty_four_samples_a_problem_stream_to_disk_and_go_on_after_kill_9(tmp_path):
    def start(out):
        words = ["--model", "tiny", "--bench", "arith", "--n", "64", "--limit", "20", "--backend", "transformers"]
        words += ["--set", "eval.max_new_tokens=48", "--out", str(out), "--quiet"]
        return subprocess.Popen([sys.executable, "-m", "grail_cli", "eval", *words], stdout=subprocess.DEVNULL)

    def written(out) -> int:
        journal = out / "tiny/arith/samples.journal.jsonl"
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    assert start(tmp_path / "whole").wait(600) == 0
    out, sizes, kept = tmp_path / "killed", set(), 0
    for goal in (300, 800):
        process, deadline = start(out), time.monotonic() + 300
        while (size := written(out)) < goal and process.poll() is None and time.monotonic() < deadline:
            sizes.add(size)
            time.sleep(0.1)
        process.kill()
        assert process.wait() == -9  # it was still at work
        assert kept <= goal <= written(out) < 20 * 64
        kept = written(out)
    assert len(sizes) > 6  # the journal grew while sampling went on
    assert start(out).wait(600) == 0
    for name in ("arith/samples.jsonl", "eval_summary.json"):
        assert (out / "tiny" / name).read_bytes() == (tmp_path / "whole/tiny" / name).read_bytes()
    summary = json.loads((out / "tiny/eval_summary.json").read_text())["arith"]
    assert summary["completions"] == 20 * 64 and summary["failed"] == 0
    assert {"pass@64", "pass@63", "maj@64", "maj@32"} <= summary.keys()
