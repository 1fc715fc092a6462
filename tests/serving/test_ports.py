"""A port is free when nobody answers and nobody holds it; a reservation keeps others away and lets the server in."""

import os
import socket

import pytest

from grail_cli.errors import GrailError
from grail_cli.serving.ports import reserve


def listener(*, reuse_port: bool = False) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server does
    if reuse_port:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock


@pytest.mark.parametrize("reuse_port", [False, True])
def test_a_port_that_somebody_listens_on_is_refused_with_the_holder(reuse_port):
    with listener(reuse_port=reuse_port) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(GrailError,
                           match=f"port {port} on 127.0.0.1 is in use by pid {os.getpid()}") as caught:
            reserve("127.0.0.1", port)
        assert "--port auto" in caught.value.hint


def test_free_ports_differ_while_they_are_reserved():
    held = [reserve("127.0.0.1", None) for _ in range(50)]
    assert len({one.port for one in held}) == 50
    for one in held:
        one.close()


def test_the_server_can_listen_on_a_port_that_is_reserved_for_it():
    reservation = reserve("127.0.0.1", None)
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as vLLM does
        server.bind(("127.0.0.1", reservation.port))
        server.listen()
        with socket.create_connection(("127.0.0.1", reservation.port), timeout=2):
            accepted, _ = server.accept()
            accepted.close()
    reservation.close()


def test_a_stranger_without_address_reuse_cannot_take_a_reserved_port():
    reservation = reserve("127.0.0.1", None)
    with socket.socket() as stranger, pytest.raises(OSError):
        stranger.bind(("127.0.0.1", reservation.port))
    reservation.close()


def test_a_port_that_was_just_given_back_is_free():
    with listener() as sock:
        port = sock.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = sock.accept()
            accepted.close()  # closed first on this side: the port goes into TIME_WAIT
    reserve("127.0.0.1", port).close()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7"])
def test_an_address_that_is_not_this_machines_is_one_line(host):
    with pytest.raises(GrailError, match=host):
        reserve(host, None)
