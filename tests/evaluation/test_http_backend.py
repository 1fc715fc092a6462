"""The client: every parameter sent, seeds by key, failures retried or counted, dead servers found at once."""

import pytest

from grail_cli.errors import GrailError, RunFailed
from grail_cli.evaluation import http_backend
from grail_cli.evaluation.backend import Failed, Finished, Request, Sampling
from grail_cli.evaluation.endpoint import Server, find_server, is_loopback
from grail_cli.evaluation.http_backend import Gate, HttpBackend, missing_parts
from tests.evaluation.fake_server import FakeServer

SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, min_p=0.0, max_new_tokens=64)


def requests(problems: int = 3, n: int = 2) -> list[Request]:
    return [
        Request(f"p{i}", 0, n, 100 * i, [{"role": "user", "content": f"q{i}"}], [i, i + 1])
        for i in range(problems)
    ]


def run(server: FakeServer, asked=None, done=frozenset(), **settings) -> list:
    backend = HttpBackend(
        find_server(server.url, None),
        SAMPLING,
        chat_kwargs={"enable_thinking": False},
        **{"patience_s": 5.0, **settings},
    )
    return list(backend.generate(asked or requests(), done))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(http_backend, "_LONGEST_WAIT_S", 0.05)


def test_vllm_gets_our_prompt_ids_all_samples_in_one_request_and_every_parameter():
    with FakeServer() as server:
        found = run(server)
    assert {(f.problem_id, f.sample) for f in found} == {(f"p{i}", j) for i in range(3) for j in range(2)}
    assert len(server.bodies) == 3
    body = next(b for b in server.bodies if b["prompt"] == [1, 2])
    assert {
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.0,
        "max_tokens": 64,
        "n": 2,
        "seed": 100,
        "return_token_ids": True,
    }.items() <= body.items()
    one = next(f for f in found if (f.problem_id, f.sample) == ("p1", 1))
    assert (
        one.seed == 101
        and one.completion_ids == [ord(c) for c in r"\boxed{7}"]
        and one.completion_tokens == 9
    )


def test_any_other_server_gets_chat_messages_one_sample_a_request():
    with FakeServer(vllm=False) as server:
        found = run(server)
    assert len(found) == len(server.bodies) == 6
    assert all(
        b["messages"][0]["content"].startswith("q")
        and b["chat_template_kwargs"] == {"enable_thinking": False}
        for b in server.bodies
    )
    assert sorted(b["seed"] for b in server.bodies) == [0, 1, 100, 101, 200, 201]
    assert all(f.completion_ids is None and f.completion_tokens == 5 for f in found)


def test_samples_that_are_done_are_not_asked_for_again():
    with FakeServer() as server:
        found = run(server, done={("p0", 0), ("p0", 1), ("p1", 0)})
    assert {(f.problem_id, f.sample) for f in found} == {("p1", 1), ("p2", 0), ("p2", 1)}
    assert {(b["seed"], b["n"]) for b in server.bodies} == {(101, 1), (200, 2)}


def test_overload_errors_and_broken_connections_are_retried_until_they_end():
    faults = [429, 500, "drop", "garbage", 503, None]
    with FakeServer(plan=lambda number, body: faults[number] if number < len(faults) else None) as server:
        found = run(server, concurrency=1)
    assert all(isinstance(f, Finished) for f in found) and len(found) == 6


def test_empty_answers_are_tried_again_and_then_counted_as_failed():
    with FakeServer(plan=lambda number, body: "empty" if body["prompt"] == [1, 2] else None) as server:
        found = run(server, requests(n=1))
    failed = [f for f in found if isinstance(f, Failed)]
    assert [(f.problem_id, f.sample) for f in failed] == [("p1", 0)] and "empty" in failed[0].why
    assert sum(b["prompt"] == [1, 2] for b in server.bodies) == 3


def test_no_sample_is_lost_when_the_server_stumbles_over_those_asked_for_again():
    faults = ["empty", None, 500, "drop"]
    with FakeServer(plan=lambda number, body: faults[number] if number < len(faults) else None) as server:
        found = run(server, requests(n=4)[:1], concurrency=1)
    assert sorted((f.sample, type(f)) for f in found) == [(sample, Finished) for sample in range(4)]
    assert {b["seed"] for b in server.bodies[1:]} == {0, 1, 2, 3}


def test_a_server_that_stays_away_fails_samples_after_the_patience():
    with FakeServer(plan=lambda number, body: 503) as server:
        found = run(server, patience_s=0.3)
    assert len(found) == 6 and all(isinstance(f, Failed) and "503" in f.why for f in found)


def test_a_refused_request_ends_the_run_with_the_servers_words():
    with FakeServer(plan=lambda number, body: 400) as server, pytest.raises(RunFailed, match="planned 400"):
        run(server)


def test_a_server_known_to_be_dead_ends_the_run_at_once_and_keeps_what_came():
    def dead() -> None:
        raise RunFailed("the server has died: out of memory")

    with FakeServer(plan=lambda number, body: None if number < 2 else 500) as server:
        backend = HttpBackend(
            Server(server.url, "fake", True, check_alive=dead),
            SAMPLING,
            chat_kwargs={},
            concurrency=1,
            patience_s=60,
        )
        found = []
        with pytest.raises(RunFailed, match="out of memory"):
            for item in backend.generate(requests()):
                found.append(item)
    assert len(found) == 4


def test_another_model_or_no_server_is_a_sentence():
    with FakeServer(model="other") as server:
        with pytest.raises(GrailError, match="serves other, not 'mine'"):
            find_server(server.url, "mine")
        assert find_server(server.url.removesuffix("/v1"), "/models/fake/").model == "other"
    with pytest.raises(GrailError, match="no OpenAI-compatible server"):
        find_server(server.url, None)


def test_the_gate_halves_under_strain_once_a_second_and_grows_with_success():
    gate = Gate(64)
    gate.strained(True)
    gate.strained(True)
    assert gate.limit == 32
    for _ in range(100):
        gate.succeeded()
    assert gate.limit == 64


def test_proxies_are_left_aside_for_this_machine_only():
    assert is_loopback("http://127.0.0.1:8000/v1") and is_loopback("http://localhost/v1")
    assert not is_loopback("https://api.example.com/v1")


def test_missing_samples_are_asked_for_in_runs():
    request = Request("p", 0, 6, 50, [], [1])
    parts = missing_parts(request, {("p", 2)}, together=True)
    assert [(p.first, p.count, p.seed) for p in parts] == [(0, 2, 50), (3, 3, 53)]
