"""State files find our servers again, and nothing that is not provably ours is ever signalled."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from grail_cli import serving
from grail_cli.errors import GrailError
from grail_cli.files import process_started
from grail_cli.serving import registry

from .conftest import wait_for


def write_entry(**data):
    path = registry.servers_folder() / "x.json"
    path.write_text(json.dumps({"state": "ready", "grace_s": 0.3, **data}))
    return registry.read_entry(path)


@pytest.mark.parametrize("host, url", [
    ("127.0.0.1", "http://127.0.0.1:8000/v1"), ("0.0.0.0", "http://127.0.0.1:8000/v1"),
    ("::1", "http://[::1]:8000/v1")])
def test_a_listed_server_has_the_url_that_reaches_it_from_here(host, url):
    assert write_entry(host=host, port=8000).url == url


@pytest.fixture
def stranger():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_a_reused_pid_is_never_signalled(stranger):
    entry = write_entry(pid=stranger.pid, pid_started=process_started(stranger.pid) - 3600,
                        guard_pid=stranger.pid, guard_started=process_started(stranger.pid) - 3600)
    assert entry.status == "dead" and entry.leftovers() == []
    registry.stop(entry)
    time.sleep(0.2)
    assert stranger.poll() is None and registry.entries() == []


def test_our_own_group_is_never_ended():
    entry = write_entry(pid=os.getpgrp(), pid_started=0.0)
    assert entry.leftovers() == []


def test_names_are_claimed_once_and_a_dead_claim_is_taken_over():
    first, second = registry.claim("run@step-50", {}), registry.claim("run@step-50", {})
    assert [first.stem, second.stem] == ["run@step-50", "run@step-50-2"]
    data = json.loads(first.read_text())
    first.write_text(json.dumps({**data, "claimed_started": data["claimed_started"] - 3600}))
    assert registry.claim("run@step-50", {}).stem == "run@step-50"
    assert registry.claim("../../etc/pass wd", {}).parent == registry.servers_folder()


def test_threads_that_claim_one_name_at_once_get_a_name_each(monkeypatch):
    """Each waits for the others between writing its claim and putting it in place."""
    meeting, link, calls = threading.Barrier(8, timeout=20), os.link, threading.local()

    def late_link(source, target):
        if not getattr(calls, "met", False):
            calls.met = True
            meeting.wait()
        link(source, target)

    monkeypatch.setattr(os, "link", late_link)
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda number: registry.claim("model", {"number": number}), range(8)))
    assert len(set(paths)) == 8
    assert {json.loads(path.read_text())["number"] for path in paths} == set(range(8))
    assert not list(registry.servers_folder().glob(".claim*"))


def test_an_unknown_name_shows_the_known_ones():
    write_entry(pid=None)
    with pytest.raises(GrailError, match="no server named 'z'") as caught:
        registry.find("z")
    assert "x" in caught.value.hint


def test_a_server_whose_guard_was_killed_is_listed_as_an_orphan_and_can_be_stopped(fake, out):
    fake.switch(ignore_term=True, grandchild="group")
    server = serving.launch_until_ready(fake.settings(grace_s=0.3), out)
    os.kill(server.process.guard_pid, signal.SIGKILL)
    assert wait_for(lambda: registry.find(server.name).status == "orphan")
    assert len(fake.processes()) == 2
    fake.switch()
    with serving.start(fake.settings(), out):  # the next start names it
        assert "end it with: grail serve --stop model" in out.warnings[0]
    registry.stop(registry.find(server.name))
    assert fake.nothing_left()
    server.stop(out)


def test_a_server_that_heeds_sigterm_ends_with_its_killed_guard(fake, out):
    fake.switch()
    server = serving.launch_until_ready(fake.settings(), out)
    os.kill(server.process.guard_pid, signal.SIGKILL)
    assert wait_for(lambda: not fake.processes(), 5)
    server.stop(out)
    assert fake.nothing_left()


def test_logs_of_old_failures_are_pruned_and_fresh_ones_kept():
    folder = registry.servers_folder()
    for name, age in (("old", registry.KEEP_LOGS_S + 60), ("fresh", 60)):
        (folder / f"{name}.log").write_text("x")
        os.utime(folder / f"{name}.log", (time.time() - age,) * 2)
    registry.prune_logs()
    assert [path.name for path in folder.glob("*.log")] == ["fresh.log"]
