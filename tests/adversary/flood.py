"""A hostile peer that takes what a key service has only so much of: connections, descriptors, memory, disk."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from sensecrypt.protocol.round import Round, address_of
from tests.keyservice.conftest import Server, certificate
from tests.keyservice.rounds import Played


@contextlib.contextmanager
def descriptors(soft: int) -> Iterator[None]:
    """What is started inside may open so many files unless it asks for more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Flood:
    """Connections that are held, and closed at the end."""

    def __init__(self, server: Server) -> None:
        host, port = server.url.removeprefix("https://").split(":")
        self._server, self._where = server, (host, int(port))
        self.held: list[socket.socket] = []

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.held:
            each.close()

    def idle(self, count: int) -> None:
        """TCP connections on which nothing is sent."""
        for _ in range(count):
            self.held.append(self._connect())

    def silent(self, count: int, *, name: str | None = None) -> None:
        """TLS connections on which no request is sent, with that client's certificate or none."""
        for _ in range(count):
            with contextlib.suppress(OSError):  # it was closed at once
                self.held.append(self.wrapped(name))

    def unread(self, count: int, path: str, *, name: str) -> None:
        """Requests whose answers are not read."""
        for _ in range(count):
            with contextlib.suppress(OSError):
                connection = self.wrapped(name, buffer=4096)
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                self.held.append(connection)

    def wrapped(self, name: str | None, *, buffer: int | None = None) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self._server.pki / "ca.crt"))
        if name is not None:
            context.load_cert_chain(*certificate(self._server.pki, "client", name))
        return context.wrap_socket(self._connect(buffer), server_hostname=self._where[0])

    def open_ones(self) -> int:
        """How many of those on which nothing was sent the service still holds."""
        return sum(not is_closed(each) for each in self.held)

    def _connect(self, buffer: int | None = None) -> socket.socket:
        connection = socket.socket()
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(5)
        connection.connect(self._where)
        return connection


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has ended a connection on which no answer is due."""
    connection.settimeout(0.02)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def seconds_to_answer(played: Played, round_: Round, client: int = 1) -> float:
    """How long a member waits for something that the service writes down, over a new connection, at the first try."""
    start = time.monotonic()
    with played.client(client, tries=1) as identity:
        identity.task(address_of(round_))
    return time.monotonic() - start


def resident_megabytes(server: Server) -> float:
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    [kilobytes] = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return kilobytes / 1024


def open_files(server: Server) -> int:
    assert server.process is not None
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def most_files(server: Server) -> int:
    """How many files the service may have open."""
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
    [soft] = [int(line.split()[3]) for line in lines if line.startswith("Max open files")]
    return soft


def wait_until(holds, *, seconds: float = 8.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
