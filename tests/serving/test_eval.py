"""`grail eval --backend vllm` with a fake that misbehaves in use: message, code, nothing left, samples kept."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import wait_for

pytestmark = pytest.mark.slow  # every run loads a tokenizer, and transformers with it
LIMIT, N = 6, 2


def command(out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "grail_cli", "eval", "--model", "tiny", "--bench", "arith", "--n", str(N),
            "--limit", str(LIMIT), "--backend", "vllm", "--out", str(out), "--set", "eval.concurrency=1",
            "--set", "serve.grace_s=0.5", "--set", "eval.max_new_tokens=32", "--json", *words]


def evaluate(out: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(command(out, *words), capture_output=True, text=True, timeout=120)


def journal(out: Path) -> list[dict]:
    files = out.glob("*/arith/samples.journal.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_server_that_dies_in_mid_eval_ends_it_with_the_cause_and_the_next_run_goes_on(fake, tmp_path):
    fake.switch(die_at=4, slow_s=0.3)  # the first completion is the probe of the start
    done = evaluate(tmp_path)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1, done.stderr
    assert "the server of 'tiny' has died: ended with exit code 1" in error["message"]
    assert "Traceback" not in done.stderr and fake.nothing_left()
    kept = journal(tmp_path)
    assert len(kept) == 2 * N  # two prompts were answered before the third killed it

    fake.switch(record=str(tmp_path / "bodies.jsonl"))
    done = evaluate(tmp_path)
    assert done.returncode == 0, done.stderr
    asked = [json.loads(line) for line in (tmp_path / "bodies.jsonl").read_text().splitlines()][1:]
    assert len(asked) == LIMIT - 2
    lines = [json.loads(line) for line in next(tmp_path.glob("*/arith/samples.jsonl")).read_text().splitlines()]
    assert [len(line["generated_solutions"]) for line in lines] == [N] * LIMIT
    assert fake.nothing_left()


def test_every_request_carries_every_sampling_parameter_and_the_prompts_ids(fake, tmp_path):
    fake.switch(record=str(tmp_path / "bodies.jsonl"))
    typed = ["eval.temperature=0.6", "eval.top_p=0.95", "eval.top_k=7", "eval.min_p=0.1"]
    assert evaluate(tmp_path, *(word for value in typed for word in ("--set", value))).returncode == 0
    for body in [json.loads(line) for line in (tmp_path / "bodies.jsonl").read_text().splitlines()][1:]:
        assert body["path"] == "/v1/completions" and body["model"] == "tiny"
        assert isinstance(body["prompt"], list) and all(isinstance(token, int) for token in body["prompt"])
        assert (body["n"], body["max_tokens"], body["temperature"], body["top_p"]) == (N, 32, 0.6, 0.95)
        assert body["top_k"] == 7 and body["min_p"] == 0.1 and isinstance(body["seed"], int)
        assert body["repetition_penalty"] == 1.0 and body["presence_penalty"] == body["frequency_penalty"] == 0.0
        assert body["return_token_ids"] is True


@pytest.mark.parametrize("switches", [
    {"statuses": {"2": 429, "4": 500, "5": 503, "7": 502}}, {"drop_at": 3}, {"garbage_at": 3}],
    ids=["429 and 5xx", "a closed connection", "garbage"])
def test_what_passes_by_itself_is_tried_again(fake, tmp_path, switches):
    fake.switch(**switches)
    done = evaluate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert fake.nothing_left() and next(tmp_path.glob("*/eval_summary.json"))


def test_a_refusal_ends_the_run_with_the_servers_words(fake, tmp_path):
    fake.switch(statuses={"3": 400})
    done = evaluate(tmp_path)
    assert done.returncode == 1 and "status 400 by a switch" in json.loads(done.stdout)["error"]["message"]
    assert len(journal(tmp_path)) == N and fake.nothing_left()


def test_a_prompt_that_does_not_fit_is_found_before_anything_is_spawned(fake, tmp_path):
    fake.switch()
    done = evaluate(tmp_path, "--set", "eval.max_new_tokens=512")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2 and "problem" in error["message"] and "context is 512" in error["message"]
    assert not fake.processes()


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_in_mid_eval_stops_the_server_and_keeps_what_is_finished(fake, tmp_path, signum, code):
    fake.switch(slow_s=0.7, ignore_term=True)
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: len(journal(tmp_path)) >= N, 90)
    process.send_signal(signum)
    document, errors = process.communicate(timeout=30)
    assert process.returncode == code and "Traceback" not in errors
    assert json.loads(document)["error"]["kind"] == "interrupted"
    keys = [(line["id"], line["sample"]) for line in journal(tmp_path)]
    assert fake.nothing_left() and len(keys) >= N and len(set(keys)) == len(keys)
