"""An evaluation as a whole: files, resume, kills, growing n, failures, settings that cannot mix."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grail_cli.errors import GrailError, RunFailed
from grail_cli.evaluation.grade import Grader
from grail_cli.evaluation.provenance import model_hash
from grail_cli.evaluation.run import Running
from grail_cli.evaluation.store import SuiteFolder, read_results
from tests.evaluation.stub import StubBackend, run


def files(out: Path) -> tuple[str, str]:
    return (out / "tiny/arith/samples.jsonl").read_text(), (out / "tiny/eval_summary.json").read_text()


def test_samples_lie_in_suite_order_with_every_field(tmp_path):
    document = run(tmp_path, n=2, limit=5)
    lines = [json.loads(line) for line in files(tmp_path)[0].splitlines()]
    assert [line["id"] for line in lines] == [f"arith/{i:04d}" for i in range(5)]
    assert set(lines[0]) == {"id", "question", "gt_answer", "prompt_ids", "generated_solutions"}
    sample = lines[0]["generated_solutions"][1]
    assert {
        "solution",
        "pred_answer",
        "completion_tokens",
        "completion_ids",
        "correct",
        "verdict",
        "rule",
        "finish_reason",
        "seed",
        "sample",
    } <= set(sample)
    assert sample["sample"] == 1 and sample["seed"] == lines[0]["generated_solutions"][0]["seed"] + 1
    assert document["suites"]["arith"]["completions"] == 10
    assert not (tmp_path / "tiny/arith/samples.journal.jsonl").exists()


@pytest.mark.parametrize("owner", [Running, SuiteFolder])
def test_an_interrupt_just_after_samples_were_written_does_not_write_them_twice(tmp_path, monkeypatch, owner):
    whole = owner.add

    def interrupted(self, rows):
        whole(self, rows)
        monkeypatch.setattr(owner, "add", whole)
        raise KeyboardInterrupt

    monkeypatch.setattr("grail_cli.evaluation.run.JOURNAL_EVERY_S", 0)
    monkeypatch.setattr(owner, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, n=2, limit=3)
    assert len((tmp_path / "tiny/arith/samples.journal.jsonl").read_text().splitlines()) == 1


def of_kind(kind: str) -> StubBackend:
    backend = StubBackend()
    backend.about = {"backend": kind}
    return backend


def test_samples_of_two_kinds_of_backend_never_mix_unless_told(tmp_path):
    def backends():
        return json.loads((tmp_path / "tiny/manifest.json").read_text())["backends"]

    run(tmp_path, limit=2)
    run(tmp_path, limit=4)
    assert backends() == [{"backend": "stub"}]  # once, however often it is resumed
    before, other = files(tmp_path), of_kind("vllm")
    with pytest.raises(GrailError, match="backend was stub, now vllm") as caught:
        run(tmp_path, limit=6, backend=other)
    assert caught.value.kind == "settings_differ" and "--mix-backends" in caught.value.hint
    assert other.made == [] and files(tmp_path) == before and backends() == [{"backend": "stub"}]
    run(tmp_path, limit=4, backend=other)  # nothing is missing, so nothing mixes
    assert other.made == []

    run(tmp_path, limit=6, backend=other, mix_backends=True)
    assert len(other.made) == 4 and backends() == [{"backend": "stub"}, {"backend": "vllm"}]
    with pytest.raises(GrailError, match="backend was stub, now vllm"):  # still a mix
        run(tmp_path, limit=7, backend=of_kind("vllm"))


def test_samples_of_another_kind_of_backend_are_moved_aside_by_new(tmp_path):
    run(tmp_path, limit=3)
    other = of_kind("vllm")
    run(tmp_path, limit=4, backend=other, new=True)
    assert len(other.made) == 8 and (tmp_path / "tiny/old-1/arith/samples.jsonl").is_file()
    assert json.loads((tmp_path / "tiny/manifest.json").read_text())["backends"] == [{"backend": "vllm"}]
    assert read_results(tmp_path / "tiny").suites.keys() == {"arith"}


def test_another_kind_that_is_known_is_refused_before_it_is_opened(tmp_path):
    run(tmp_path, limit=2)
    opened = []

    class Never(StubBackend):
        @property
        def about(self):
            opened.append(True)
            return {"backend": "vllm"}

    with pytest.raises(GrailError, match="backend was stub, now vllm"):
        run(tmp_path, limit=3, backend=Never(), kind="vllm")
    assert opened == []


def test_an_interrupted_run_goes_on_and_equals_the_unbroken_one(tmp_path):
    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(tmp_path / "broken", backend=StubBackend(stop_after=7))
    assert "7 of 20 samples of arith are kept" in stopped.value.args[0]
    rest = StubBackend()
    run(tmp_path / "broken", backend=rest)
    assert len(rest.made) == 13
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


def test_a_torn_last_line_is_cut_and_made_again(tmp_path):
    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "torn", backend=StubBackend(stop_after=7))
    journal = tmp_path / "torn/tiny/arith/samples.journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-30])
    rest = StubBackend()
    run(tmp_path / "torn", backend=rest)
    assert len(rest.made) == 14
    assert files(tmp_path / "torn") == files(tmp_path / "whole")


@pytest.mark.slow
def test_kill_9_at_twenty_random_moments_loses_and_doubles_nothing(tmp_path):
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}

    def start(out: Path) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.evaluation.stub", str(out), "3", "30", "0.02"],
            env=environment,
            cwd=root,
            stderr=subprocess.PIPE,
        )

    began = time.monotonic()
    assert start(tmp_path / "whole").wait(120) == 0
    took = time.monotonic() - began
    rng, kills = random.Random(4), 0
    for turn in range(20):
        out = tmp_path / f"killed-{turn % 5}-{turn}"
        process = start(out)
        time.sleep(rng.uniform(0.2, took * 1.05))
        kills += process.poll() is None
        process.kill()
        process.wait()
        again = start(out)
        assert again.wait(120) == 0, again.stderr.read().decode()
        assert files(out) == files(tmp_path / "whole")
    assert kills >= 15


def test_a_second_evaluation_of_one_folder_is_refused(tmp_path):
    root = Path(__file__).resolve().parents[2]
    first = subprocess.Popen(
        [sys.executable, "-m", "tests.evaluation.stub", str(tmp_path), "3", "30", "0.2"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "tiny/arith/samples.journal.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(GrailError, match=rf"in use by pid {first.pid}"):
            run(tmp_path, n=3, limit=30)
    finally:
        first.kill()
        first.wait()


def test_other_settings_are_refused_by_name_or_moved_aside(tmp_path):
    run(tmp_path)
    with pytest.raises(GrailError, match=r"sampling was .*, now .*; seed was 0, now 5"):
        run(tmp_path, sets=["eval.seed=5", "eval.top_k=7"])
    run(tmp_path, sets=["eval.seed=5"], new=True)
    assert (tmp_path / "tiny/old-1/arith/samples.jsonl").is_file()
    assert json.loads((tmp_path / "tiny/manifest.json").read_text())["settings"]["seed"] == 5


def test_a_checkpoint_whose_weights_changed_is_another_model(tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"a" * 3_000_000)
    before = model_hash(str(folder))
    assert model_hash(str(folder)) == before
    (folder / "trainer_state.json").write_text("{}")  # says nothing about the weights
    assert model_hash(str(folder)) == before
    (folder / "model.safetensors").write_bytes(b"a" * 2_999_999 + b"b")
    assert model_hash(str(folder)) != before

    run(tmp_path / "out")
    manifest = tmp_path / "out/tiny/manifest.json"
    document = json.loads(manifest.read_text())
    document["settings"]["model_hash"] = before
    manifest.write_text(json.dumps(document))
    with pytest.raises(GrailError, match=f"model_hash was '{before}', now"):
        run(tmp_path / "out")


def test_the_live_line_says_tokens_a_second_the_accuracy_so_far_and_failures():
    with Grader(workers=1) as grader:
        running = Running({"a": "7"}, grader)
        running.begun = time.monotonic() - 10.0
        running.add([{"id": "a", "solution": rf"\boxed{{{x}}}", "completion_tokens": 500} for x in (7, 8, "7.0", 9)])
    rate, accuracy = running.note(0).split(" tokens/s, ")
    assert 150 < float(rate.replace(",", "")) <= 200 and accuracy == "accuracy 50.0 %"
    assert running.note(3).endswith("accuracy 50.0 %, 3 failed")


def test_raising_n_or_the_limit_keeps_the_old_samples(tmp_path):
    run(tmp_path / "grown", n=2, limit=6)
    more = StubBackend()
    run(tmp_path / "grown", n=4, limit=10, backend=more)
    assert len(more.made) == 40 - 12
    run(tmp_path / "whole", n=4, limit=10)
    assert files(tmp_path / "grown") == files(tmp_path / "whole")
    with pytest.raises(GrailError, match="4 samples a problem, more than the 3 asked for"):
        run(tmp_path / "grown", n=3, limit=10)


def test_a_finished_run_samples_nothing_and_says_the_same(tmp_path):
    run(tmp_path)
    before = files(tmp_path)
    again = StubBackend()
    run(tmp_path, backend=again)
    assert again.made == [] and files(tmp_path) == before


def test_failed_samples_are_no_answers_and_too_many_refuse_the_summary(tmp_path):
    failing = {("arith/0001", 0), ("arith/0003", 1)}
    with pytest.raises(RunFailed, match=r"2 of 20 samples of arith failed \(first: planned\)"):
        run(tmp_path, backend=StubBackend(failing=failing))
    document = run(tmp_path, backend=StubBackend(failing=failing), allow_missing=True)
    assert document["suites"]["arith"]["failed"] == 2 and len(document["suites"]["arith"]["acc_bounds"]) == 2
    run(tmp_path)  # the server is well again: filled in, and as if nothing had happened
    run(tmp_path / "whole")
    assert files(tmp_path) == files(tmp_path / "whole")


def test_sixty_four_samples_a_problem_stream(tmp_path):
    document = run(tmp_path, n=64, limit=3)
    scores = document["suites"]["arith"]
    assert scores["completions"] == 192 and {f"pass@{k}" for k in range(1, 65)} <= set(scores)
    assert [k for k in (1, 8, 16, 32, 64) if f"maj@{k}" in scores] == [1, 8, 16, 32, 64]


def test_answers_that_are_equal_in_value_are_one_vote(tmp_path):
    class Halves(StubBackend):
        def generate(self, requests, done=frozenset()):
            answers = ["3", "1/2", "0.5", r"\frac24"]
            for finished in super().generate(requests, done):
                yield type(finished)(
                    **{**finished.__dict__, "text": rf"\boxed{{{answers[finished.sample]}}}"}
                )

    run(tmp_path, n=4, limit=2, backend=Halves())
    for line in read_results(tmp_path / "tiny").suites["arith"].problems:
        assert [s["answer_class"] for s in line["generated_solutions"]] == [1, 2, 2, 2]


def test_two_suites_make_averages_and_one_folder_each(tmp_path):
    document = run(tmp_path, suites=("arith", "arith-hard"))
    assert {"arith", "arith-hard", "average", "weighted_average"} <= set(document["suites"])
    assert read_results(tmp_path / "tiny").suites.keys() == {"arith", "arith-hard"}


def test_a_problem_asked_differently_under_its_id_is_refused(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"id": "a", "question": "1+1", "answer": "2"}\n')
    run(tmp_path / "out", suites=(f"own={file}",))
    file.write_text('{"id": "a", "question": "1+1", "answer": "3"}\n')
    with pytest.raises(GrailError, match=r"another question or gold under 1 ids \(first: a\)"):
        run(tmp_path / "out", suites=(f"own={file}",))
