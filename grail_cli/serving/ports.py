"""A port that is really free, and stays ours until the server has it.

A port can be taken although a bind succeeds (two servers may share it through SO_REUSEPORT), so the test
binds without that option and also tries to connect. The reservation is a bound socket that never listens: on
Linux a server that sets SO_REUSEADDR, as vLLM does, can bind and listen beside it, while nobody else is
handed the port by the kernel.
"""

import socket
import sys
from contextlib import closing

from ..errors import GrailError

CONNECT_TIMEOUT_S = 1.0


def wildcard_to_loopback(host: str) -> str:
    """The address at which a server listening on `host` can be reached from this machine."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def root_url(host: str, port: int) -> str:
    """http://HOST:PORT of a server that listens on `host`, as this machine reaches it."""
    host = wildcard_to_loopback(host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def family_of(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    with closing(socket.socket(family_of(host), socket.SOCK_STREAM)) as probe:
        probe.settimeout(CONNECT_TIMEOUT_S)
        return probe.connect_ex((wildcard_to_loopback(host), port)) == 0


def holder(port: int) -> str:
    """`pid 1234 (python -m ...)` of whoever listens on a port, or an empty text when that cannot be told."""
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.AccessDenied, PermissionError):
        return ""
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            try:
                command = " ".join(psutil.Process(connection.pid).cmdline())
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                command = ""
            return f"pid {connection.pid}" + (f" ({command[:120]})" if command else "")
    return ""


class Reservation:
    """A port kept for a server that is about to start; `close` it once the server listens."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self.port: int = sock.getsockname()[1]
        if sys.platform != "linux":
            sock.close()  # elsewhere the server could not bind beside it

    def close(self) -> None:
        self._socket.close()


def reserve(host: str, port: int | None, *, where: str = "serve.port") -> Reservation:
    """Reserve `port`, or a free one for None. Raises GrailError naming the holder of a taken port."""
    sock = socket.socket(family_of(host), socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT is free, LISTEN is not
    try:
        sock.bind((host, port or 0))
    except PermissionError:
        sock.close()
        raise GrailError(f"port {port} needs more rights than you have.", where=where, kind="port",
                         hint="choose a port above 1023, or --port auto.") from None
    except socket.gaierror as error:
        sock.close()
        raise GrailError(f"{host!r} is no address of this machine ({error}).", where="serve.host",
                         kind="port",
                         hint="127.0.0.1 serves this machine only, 0.0.0.0 the network.") from None
    except OSError as error:
        sock.close()
        if port is None:
            raise GrailError(f"cannot listen on {host!r} ({error}).", where="serve.host", kind="port",
                             hint="127.0.0.1 serves this machine only, 0.0.0.0 the network.") from None
        raise taken(host, port, where) from None
    if port is not None and answers(host, port):
        sock.close()
        raise taken(host, port, where)
    return Reservation(sock)


def taken(host: str, port: int, where: str) -> GrailError:
    """The fault of a port that somebody else listens on."""
    who = holder(port)
    return GrailError(f"port {port} on {host} is in use" + (f" by {who}." if who else "."), where=where,
                      kind="port",
                      hint="stop that server, choose another --port, or --port auto for a free one.")
