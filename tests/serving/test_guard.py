"""However the owner ends, the server's group ends with it; and nothing piles up over many starts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grail_cli import serving
from grail_cli.serving import registry

from .conftest import wait_for

OWNER = """
import sys, time
from grail_cli import serving
from grail_cli.console import Console
from grail_cli.presets.schema import ServeSection
settings = serving.ServeSettings(model=sys.argv[1], options=ServeSection(grace_s=30.0))
server = serving.launch_until_ready(settings, Console())
if "fork" in sys.argv:
    import os
    if os.fork() == 0:
        time.sleep(20)  # a forked worker holds our end of the guard's pipe open
        os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""


def start_owner(fake, *words: str) -> subprocess.Popen:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(fake.model), *words], stdout=subprocess.PIPE,
                             text=True)
    assert owner.stdout.readline() == "ready\n"
    return owner


def servers_of(fake, owner: subprocess.Popen) -> list[int]:
    """Processes of the fake, without the owner and what the owner forked."""
    import psutil

    forked = []
    if owner.poll() is None:
        forked = [child.pid for child in psutil.Process(owner.pid).children() if "guard.py" not in " ".join(child.cmdline())]
    return [pid for pid in fake.processes() if pid not in (owner.pid, *forked)]


@pytest.mark.parametrize("words", [(), ("fork",)], ids=["alone", "with a forked worker"])
def test_the_group_is_gone_within_five_seconds_of_the_owners_sigkill(fake, words):
    fake.switch(ignore_term=True, grandchild="group")
    owner = start_owner(fake, *words)
    group = servers_of(fake, owner)
    assert len(group) == 3
    owner.kill()
    owner.wait()
    began = time.monotonic()
    assert wait_for(lambda: not [pid for pid in group if pid in fake.processes()], 8.0)
    assert time.monotonic() - began < 5.0
    assert not list((fake.home / "servers").glob("*.json"))
    for pid in fake.processes():  # the forked worker of the test's owner
        os.kill(pid, signal.SIGKILL)


def test_commands_that_start_servers_at_the_same_time_never_share_a_port(fake):
    fake.switch(delay_s=0.3)
    words = [sys.executable, "-c", OWNER, str(fake.model)]
    owners = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    try:
        assert [owner.stdout.readline() for owner in owners] == ["ready\n"] * 5
        found = registry.entries()
        assert len({entry.data["port"] for entry in found}) == len({entry.name for entry in found}) == 5
    finally:
        for owner in owners:
            owner.terminate()
            owner.wait()
    assert wait_for(lambda: not fake.processes(), 8.0)


def test_a_second_interrupt_does_not_wait_for_the_grace(fake, out):
    fake.switch(ignore_term=True)
    server = serving.launch_until_ready(fake.settings(grace_s=30.0), out)
    os.kill(server.process.guard_pid, signal.SIGTERM)
    time.sleep(0.3)
    assert len(fake.processes()) == 2  # patient
    os.kill(server.process.guard_pid, signal.SIGTERM)
    assert wait_for(lambda: not fake.processes(), 3.0)
    server.stop(out)


def test_the_guard_stays_small(fake, out):
    import psutil

    fake.switch()
    with serving.start(fake.settings(), out) as server:
        assert psutil.Process(server.process.guard_pid).memory_info().rss < 60e6


def test_a_detached_server_outlives_its_owner_and_dies_noticed(fake, out):
    fake.switch()
    server = serving.launch_until_ready(fake.settings(), out)
    server.process.detach()
    assert wait_for(lambda: registry.find(server.name).data["detached"])
    server.process._guard.stdin.close()  # as when the owner ends
    server.process._guard.stdout.close()
    time.sleep(1.2)
    entry = registry.find(server.name)
    assert entry.status == "ready"
    os.kill(entry.data["pid"], signal.SIGKILL)
    assert wait_for(lambda: registry.find(server.name).status == "dead")
    assert registry.find(server.name).data["exit_code"] == -9
    registry.forget(registry.find(server.name), log=True)
    server.process._guard.wait()
    assert fake.nothing_left()


@pytest.mark.slow
def test_two_hundred_starts_and_stops_leave_no_process_socket_or_file(fake, out):
    fake.switch()

    def open_things() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(list(Path(registry.home() / "servers").iterdir()))

    with serving.start(fake.settings(), out):
        pass
    before = open_things()
    for number in range(200):
        fake.switch(ignore_term=number % 20 == 0, grandchild="group" if number % 20 == 1 else None)
        with serving.start(fake.settings(grace_s=0.3), out) as server:
            port = server.address.port
    assert fake.nothing_left() and open_things() == before
    listening = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
    assert f":{port:04X} 00000000:0000 0A" not in listening
