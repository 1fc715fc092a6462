"""`grail serve` from outside: what it prints, how it ends, and that nothing is left, against a fake vLLM."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.serving.conftest import checkpoint, fake, make_checkpoint, wait_for  # noqa: F401 (fixtures)


def grail(*words: str, timeout: float = 60) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "grail_cli", "serve", *words], capture_output=True,
                          text=True, timeout=timeout)


def foreground(fake, *words: str) -> subprocess.Popen:
    """A foreground server that has printed its result."""
    process = subprocess.Popen([sys.executable, "-m", "grail_cli", "serve", "--model", str(fake.model),
                                "--json",
                                "--set", "serve.grace_s=0.5", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    lines = []
    while not lines or lines[-1] != "}\n":
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    process.document = json.loads("".join(lines))
    return process


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_foreground_server_ends_with_the_signals_code_and_leaves_nothing(fake, signum, code):
    fake.switch(ignore_term=True, grandchild="group")
    process = foreground(fake)
    assert process.document["servers"][0]["url"].startswith("http://127.0.0.1:")
    process.send_signal(signum)
    rest, errors = process.communicate(timeout=20)
    assert process.returncode == code and rest == "" and "Traceback" not in errors
    assert fake.nothing_left()


def test_a_signal_during_the_start_ends_it_cleanly(fake):
    fake.switch(hang=True)
    process = subprocess.Popen([sys.executable, "-m", "grail_cli", "serve", "--model", str(fake.model),
                                "--set", "serve.grace_s=0.5"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: len(fake.processes()) == 3, 20)  # grail, guard, server
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and out == "" and "error: interrupted." in errors and "Traceback" not in errors
    assert fake.nothing_left()


def test_a_foreground_server_that_dies_is_exit_code_one_and_still_one_document(fake):
    fake.switch()
    process = foreground(fake)
    os.kill(process.document["servers"][0]["pid"], signal.SIGKILL)
    rest, errors = process.communicate(timeout=20)
    assert process.returncode == 1 and rest == ""
    assert "has died: killed (signal 9)" in errors and "out of memory" in errors
    assert fake.nothing_left()


def test_detached_servers_are_listed_read_and_stopped(fake):
    fake.switch()
    second = make_checkpoint(fake.model.parent / "run" / "checkpoint-50")
    started = grail("--model", str(fake.model), "--model", str(second), "--detach", "--json")
    assert started.returncode == 0, started.stderr
    servers = json.loads(started.stdout)["servers"]
    assert [server["name"] for server in servers] == ["model", "run@step-50"]
    assert len({server["url"] for server in servers}) == 2

    listed = json.loads(grail("--list", "--json").stdout)["servers"]
    assert [(row["name"], row["status"], row["detached"]) for row in listed] == [
        ("model", "ready", True), ("run@step-50", "ready", True)]
    assert "vLLM API server version fake" in grail("--logs", "model").stdout
    assert json.loads(grail("--logs", "model", "--json").stdout)["lines"]
    assert json.loads(grail("--stop", "model", "--json").stdout) == {"stopped": ["model"]}
    assert "run@step-50" in grail("--list").stdout
    assert grail("--stop", "all").stdout == "stopped run@step-50.\n"
    assert grail("--list").stdout == "no servers.\n" and json.loads(grail("--list",
                                                                          "--json").stdout) == {"servers": []}
    assert fake.nothing_left() and list((fake.home / "servers").iterdir()) == []


def test_a_dead_server_is_listed_once(fake):
    fake.switch()
    pid = json.loads(grail("--model", str(fake.model), "--detach", "--json").stdout)["servers"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: not fake.processes())
    (row,) = json.loads(grail("--list", "--json").stdout)["servers"]
    assert row["status"] == "dead" and row["exit_code"] == -9
    assert grail("--list").stdout == "no servers.\n"


def test_a_start_that_fails_is_exit_code_one_with_cause_advice_and_log(fake, tmp_path):
    log = tmp_path / "captured.log"
    log.write_text("(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:7] Traceback (most recent call last):\n"
                   "(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:7] ValueError: No available memory for "
                   "the cache blocks.\n")
    fake.switch(log=str(log), exit=1)
    done = grail("--model", str(fake.model), "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1 and error["kind"] == "server"
    assert "No available memory" in error["message"] and "serve.kv_cache_gb" in error["hint"]
    assert "No available memory" in grail("--logs", "model").stdout  # found by name although nothing runs
    assert fake.nothing_left()


def test_a_dry_run_prints_the_command_and_starts_nothing(fake):
    done = grail("--model", str(fake.model), "--dry-run", "--set", "serve.enforce_eager=true", "--",
                 "--max-num-seqs", "16")
    assert done.returncode == 0 and done.stdout.startswith("env ")
    assert "--enforce-eager --max-num-seqs 16 --port PORT" in done.stdout
    assert not (fake.home / "servers").exists()


@pytest.mark.parametrize("words, message", [
    ((), "nothing to serve"), (("--list", "--stop", "all"), "exclude one another"),
    (("--model", "no/such/folder/at/all"), "no such folder"), (("--stop", "x"), "no server named 'x'"),
    (("--model", "m", "--port", "eighty"), "'eighty' is no port"),
    (("--model", "m", "word"), "'word' is no option"),
    (("--model", "m", "--model", "n", "--name", "x"), "one --name for 2 models")])
def test_mistakes_are_one_line_and_exit_code_two(words, message):
    done = grail(*words)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert message in line and "Next: " in line


def test_following_a_log_ends_with_the_server(fake):
    fake.switch()
    assert grail("--model", str(fake.model), "--detach").returncode == 0
    reader = subprocess.Popen([sys.executable, "-m", "grail_cli", "serve", "--logs", "model", "--follow"],
                              stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    assert grail("--stop", "model").returncode == 0
    text, _ = reader.communicate(timeout=10)
    assert reader.returncode == 0 and "Starting vLLM server" in text


def test_a_preset_names_the_model_and_port_auto_wins_over_its_port(fake, tmp_path):
    preset = tmp_path / "mine.yaml"
    preset.write_text(f"model:\n  path: {fake.model}\nserve:\n  port: 8123\n")
    ports = []
    for words in ((), ("--port", "auto")):
        done = grail("--preset", str(preset), "--dry-run", "--json", *words)
        assert done.returncode == 0, done.stderr
        (server,) = json.loads(done.stdout)["servers"]
        assert str(fake.model) in server["argv"]
        ports.append(server["port"])
    assert ports == [8123, None]


@pytest.mark.parametrize("words, message", [
    (["--list", "--detach"], "--list starts no server, so --detach would have no effect"),
    (["--stop", "x", "--port", "9000"], "so serve.port would have no effect"),
    (["--list", "--follow"], "--follow goes with --logs")])
def test_an_option_without_effect_is_refused(words, message):
    done = grail(*words)
    assert done.returncode == 2 and message in done.stderr
