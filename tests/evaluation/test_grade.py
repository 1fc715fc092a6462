"""The grader: limits that hold, from any thread; equal pairs judged once; verdicts in order."""

import threading
from pathlib import Path

import pytest

from grail_cli.errors import GrailError
from grail_cli.evaluation.grade import Grader, _lost
from grail_cli.evaluation.pool import Pool
from tests.evaluation.hostile import hostile_answers


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=1) as grader:
        yield grader


def misbehaving(workers: int = 1, **limits) -> Pool:
    return Pool(
        workers, {"cpu_s": 0.5, "memory_mb": 512, **limits}, _lost, module="tests.evaluation.spinning_worker"
    )


def test_verdicts_come_in_order_with_rule_answer_and_seconds(grader):
    verdicts = grader.grade(
        [
            ("1/2", r"\boxed{0.5}"),
            ("7", r"\boxed{8}"),
            ("7", "none"),
            ("", r"\boxed{1}"),
            (27.0, r"\boxed{27}"),
        ]
    )
    assert [v.verdict for v in verdicts] == ["correct", "wrong", "no_box", "unparseable_gold", "correct"]
    assert [v.correct for v in verdicts] == [True, False, False, False, True]
    assert [v.pred for v in verdicts] == ["0.5", "8", None, "1", "27"]
    assert all(v.rule for v in verdicts) and all(v.seconds >= 0 for v in verdicts)


def test_equal_pairs_are_judged_once(grader, monkeypatch):
    asked = []
    run = grader._pool.run
    monkeypatch.setattr(grader._pool, "run", lambda tasks, done=None: asked.extend(tasks) or run(tasks, done))
    pairs = [("11", r"\boxed{11.5}"), ("11", r"so \boxed{11.5}")]
    assert [v.verdict for v in grader.grade(pairs * 3)] == ["wrong"] * 6
    grader.grade(pairs)
    assert len(asked) == 1


def test_a_hang_in_c_in_python_or_in_memory_costs_one_answer_and_the_next_are_judged():
    pool = misbehaving()
    answers = pool.run(
        [
            ["7", answer, "lenient"]
            for answer in (
                "7",
                "hang in C",
                "8",
                "hang in Python",
                "7",
                "memory",
                "7",
                "die",
                "7",
                "fail",
                "7",
            )
        ]
    )
    pool.close()
    assert [a[0] for a in answers] == [
        "correct",
        "timeout",
        "wrong",
        "timeout",
        "correct",
        "error",
        "correct",
        "error",
        "correct",
        "error",
        "correct",
    ]
    assert answers[5][1] == "limit of memory"
    assert answers[9][1] == "internal: KeyError"
    assert all(answer[2] < 3 for answer in answers)


def test_a_worker_cannot_write_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pool = misbehaving()
    [answer] = pool.run([["7", "write", "lenient"]])
    pool.close()
    assert answer[0] == "error"
    assert not Path("written-by-an-answer").exists() or Path("written-by-an-answer").stat().st_size == 0


def test_ten_hung_workers_in_a_row_leave_the_pool_as_it_was():
    pool = misbehaving(workers=2, cpu_s=0.1)
    hung = pool.run([["7", "hang in Python", "lenient"]] * 10)
    after = pool.run([["7", "7", "lenient"]] * 50)
    pool.close()
    assert [a[0] for a in hung] == ["timeout"] * 10
    assert [a[0] for a in after] == ["correct"] * 50


def test_a_megabyte_and_unbalanced_braces_are_judged_like_any_answer(grader):
    texts = ["1" * 1_000_000, "{" * 1000, "1" + " ." * 300_000, r"\text{" * 5000 + "}" * 5000]
    verdicts = grader.grade_answers([("7", text) for text in texts])
    assert [v.verdict for v in verdicts] == ["wrong"] * 4
    assert max(v.seconds for v in verdicts) < 1


def test_grading_works_from_threads_that_call_at_once(grader):
    found = {}

    def judge(number: int) -> None:
        found[number] = grader.grade([(str(number), rf"\boxed{{{number}}}"), (str(number), r"\boxed{-1}")])

    threads = [threading.Thread(target=judge, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all([v.verdict for v in found[number]] == ["correct", "wrong"] for number in range(8))


@pytest.mark.slow
def test_two_hundred_hostile_answers_end_within_their_limits():
    import psutil

    peak, stop = [0], threading.Event()
    with Grader(workers=2) as grader:
        grader.grade([("1", r"\boxed{2}"), ("1", r"\boxed{3}")])

        def watch() -> None:
            while not stop.wait(0.05):
                for worker in list(grader._pool._workers):
                    try:
                        peak[0] = max(peak[0], psutil.Process(worker.process.pid).memory_info().rss)
                    except psutil.NoSuchProcess:
                        continue

        watcher = threading.Thread(target=watch)
        watcher.start()
        verdicts = [
            v
            for gold in ("12", "x^2+1", "(1,2)")
            for v in grader.grade([(gold, rf"\boxed{{{a}}}") for a in hostile_answers()])
        ]
        stop.set()
        watcher.join()
    assert len(verdicts) == 600
    assert not any(v.correct for v in verdicts)
    assert max(v.seconds for v in verdicts) < 5
    assert peak[0] < 1 << 30


@pytest.mark.parametrize("settings", [{"workers": 0}, {"strictness": "kind"}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(GrailError):
        Grader(**settings)


def test_a_closed_grader_starts_again():
    grader = Grader(workers=1)
    assert grader.grade([("1", r"\boxed{1.0}")])[0].correct
    grader.close()
    assert grader.grade([("2", r"\boxed{2.0}")])[0].correct
    grader.close()


def test_an_interrupt_leaves_no_answer_for_the_next_call():
    pool = misbehaving(workers=2)

    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run([["7", "7", "lenient"]] * 6, interrupt)
    answers = pool.run([["7", "8", "lenient"]] * 6)
    pool.close()
    assert [answer[0] for answer in answers] == ["wrong"] * 6


@pytest.mark.slow
def test_the_load_of_the_machine_changes_no_verdict():
    import subprocess
    import sys

    pairs = [("12", rf"\boxed{{{answer}}}") for answer in hostile_answers()[::4]]
    with Grader(workers=2, cache=False) as grader:
        quiet = grader.grade(pairs)
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
        try:
            loaded = grader.grade(pairs)
        finally:
            for process in busy:
                process.kill()
                process.wait()
    assert [(v.verdict, v.rule) for v in loaded] == [(v.verdict, v.rule) for v in quiet]
