"""The managed server against a fake vLLM that starts late, dies, hangs, lies and refuses to go."""

import json
import socket
import threading

import pytest

from grail_cli import serving
from grail_cli.errors import GrailError, RunFailed
from grail_cli.serving import ready, registry

from .conftest import wait_for


def test_a_server_is_ready_inside_the_block_and_gone_after_it(fake, out, capsys):
    fake.switch(delay_s=0.3)
    with serving.start(fake.settings(), out) as server:
        listed = ready.models(server.address)
        assert server.served_name in listed and server.max_model_len == 1024
        (entry,) = registry.entries()
        assert entry.status == "ready" and entry.data["port"] == server.address.port
        server.check_alive()
    assert fake.nothing_left() and not list((fake.home / "servers").glob("*.log"))
    assert "ready at http://127.0.0.1:" in capsys.readouterr().err


def test_ready_means_that_a_completion_was_answered_not_that_the_model_is_listed(fake, out, tmp_path):
    fake.switch(not_yet_s=1.5, record=str(tmp_path / "bodies.jsonl"))
    with serving.start(fake.settings(), out) as server:
        bodies = [json.loads(line) for line in (tmp_path / "bodies.jsonl").read_text().splitlines()]
        assert len(bodies) > 1  # refused with 503 first
        assert bodies[-1]["max_tokens"] == 1 and bodies[-1]["path"] == "/v1/completions"
        assert bodies[-1]["model"] == server.served_name


def test_the_first_request_takes_the_route_that_will_be_used(fake, out, tmp_path):
    fake.switch(record=str(tmp_path / "bodies.jsonl"))
    with serving.start(fake.settings(route="chat"), out):
        assert '"/v1/chat/completions"' in (tmp_path / "bodies.jsonl").read_text()


def test_a_refused_first_request_ends_the_start_with_the_servers_words(fake, out):
    fake.switch(refuse=400)
    with pytest.raises(RunFailed, match="refuses requests: refused by a switch"):
        serving.launch_until_ready(fake.settings(), out)
    assert fake.nothing_left()


def test_a_server_that_dies_while_loading_ends_the_start_at_once_with_the_cause(fake, out, tmp_path):
    log = tmp_path / "captured.log"
    log.write_text("(EngineCore_0 pid=7) ERROR 08-01 10:00:00 [core.py:700] Traceback (most recent call "
                   "last):\n"
                   "(EngineCore_0 pid=7) ERROR 08-01 10:00:00 [core.py:700] ValueError: something nobody has "
                   "seen before\n"
                   "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
                   "proc(s): {}\n")
    fake.switch(log=str(log), exit=1)
    with pytest.raises(RunFailed) as caught:
        serving.launch_until_ready(fake.settings(start_timeout_s=60), out)
    message = caught.value.message
    assert "ValueError: something nobody has seen before" in message.splitlines()[0]
    assert "by hand: env " in message and "whole log: " in message
    whole = message.split("whole log: ")[1].splitlines()[0]
    with open(whole) as kept:
        assert "something nobody has seen before" in kept.read()
    assert fake.nothing_left()


def test_a_server_that_hangs_is_given_up_after_the_time_limit_with_its_phase(fake, out):
    fake.switch(hang=True)
    with pytest.raises(RunFailed, match=r"not ready after 2s \(loading weights\)"):
        serving.launch_until_ready(fake.settings(start_timeout_s=2), out)
    assert fake.nothing_left()


def test_the_phase_of_a_start_is_told_while_it_lasts(fake, out, tmp_path, capsys):
    log = tmp_path / "start.log"
    log.write_text("INFO 08-01 10:00:00 [gpu_model_runner.py:1] Starting to load model tiny...\n")
    fake.switch(log=str(log), delay_s=1.5)
    with serving.start(fake.settings(), out):
        pass
    told = capsys.readouterr().err
    assert "loading weights" in told and told.index("loading weights") < told.index("ready at")


def test_garbage_is_not_taken_for_an_answer(fake, out):
    fake.switch(garbage=True)
    with pytest.raises(RunFailed, match="not ready after 2s"):
        serving.launch_until_ready(fake.settings(start_timeout_s=2), out)
    assert fake.nothing_left()


def test_a_server_with_other_names_is_not_ours(fake, out):
    fake.switch(names=["somebody-elses-model"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RunFailed, match="another server, which serves somebody-elses-model"):
        serving.launch_until_ready(fake.settings(port=port), out)
    assert fake.nothing_left()


def test_a_server_that_ignores_sigterm_is_killed_with_its_grandchild(fake, out):
    fake.switch(ignore_term=True, grandchild="group")
    with serving.start(fake.settings(grace_s=0.5), out):
        assert len(fake.processes()) == 3  # guard, server, grandchild
    assert fake.nothing_left()


def test_a_grandchild_that_left_the_group_is_found(fake, out):
    fake.switch(grandchild="session")
    with serving.start(fake.settings(grace_s=0.5), out):
        assert len(fake.processes()) == 3
    assert fake.nothing_left()


def test_a_stop_during_warm_up_finds_the_grandchild_that_sigterm_left_behind(fake, out):
    fake.switch(grandchild="early", hang=True)
    server = serving.launch(fake.settings(grace_s=0.5), out)
    assert wait_for(lambda: len(fake.processes()) == 3)
    server.stop(out)
    assert fake.nothing_left()


def test_a_server_that_dies_in_use_is_reported_with_its_cause(fake, out):
    fake.switch(die_at=2)
    with pytest.raises(RunFailed, match="has died: ended with exit code 1"):
        with serving.start(fake.settings(), out) as server:
            assert ready.one_token(server.address, server.served_name, "plain", 5).status == 0
            assert wait_for(lambda: server.process.poll() is not None)
            server.check_alive()
    assert fake.nothing_left()


def test_the_log_goes_to_a_file_that_is_asked_for_and_stays(fake, out, tmp_path):
    fake.switch(flood=1_000_000, ansi=True)
    log = tmp_path / "results" / "vllm.log"
    with serving.start(fake.settings(log=log), out):
        pass
    assert log.stat().st_size > 900_000 and fake.nothing_left()


def test_launcher_variables_of_a_trainer_do_not_reach_the_server(fake, monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    environment = serving.plan(fake.settings()).environment()
    assert "MASTER_PORT" not in environment and "ACCELERATE_USE_DEEPSPEED" not in environment
    assert environment["FAKE_VLLM_TOKEN"] == fake.token


def test_two_servers_started_together_have_two_ports(fake, out):
    fake.switch(delay_s=0.3)
    servers = []

    def begin() -> None:
        servers.append(serving.launch(fake.settings(), out))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len({server.address.port for server in servers}) == 4
        assert len({server.name for server in servers}) == 4
        for server in servers:
            server.wait_until_ready(out)
    finally:
        for server in servers:
            server.stop(out)
    assert fake.nothing_left()


def test_a_port_of_a_server_that_is_still_starting_is_refused_by_name(fake, out):
    fake.switch(hang=True)
    server = serving.launch(fake.settings(), out)
    try:
        with pytest.raises(GrailError, match=f"port {server.address.port} belongs to our server 'model'"):
            serving.plan(fake.settings(port=server.address.port))
    finally:
        server.stop(out)


def test_a_clash_of_internal_ports_is_tried_again(fake, out, tmp_path, capsys):
    log = tmp_path / "clash.log"
    log.write_text("(EngineCore pid=7) Traceback (most recent call last):\n"
                   "(EngineCore pid=7) zmq.error.ZMQError: Address already in use "
                   "(addr='tcp://127.0.0.1:5555')\n")
    fake.switch(log=str(log), exit=1)
    with pytest.raises(RunFailed, match="Address already in use"):
        serving.launch_until_ready(fake.settings(), out)
    assert capsys.readouterr().err.count("trying again with new ones") == 2
    assert fake.nothing_left()
