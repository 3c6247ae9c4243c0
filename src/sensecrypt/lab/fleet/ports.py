"""Consecutive free ports on this machine."""

from __future__ import annotations

import errno
import secrets
import socket

from sensecrypt.errors import ServiceError
from sensecrypt.lab.fleet.folder import HOST

# Below the ports of outgoing connections, so that a part finds its port free when it restarts.
_LOWEST, _HIGHEST = 20_000, 30_000
_TRIES = 200


def find_ports(count: int) -> int:
    """The first of `count` consecutive free ports."""
    for _ in range(_TRIES):
        first = _LOWEST + secrets.randbelow(
            _HIGHEST - _LOWEST - count
        )  # random, so that fleets that start together find different ones
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise ServiceError(HOST, f"has no {count} consecutive free ports", "choose the first one with --port")


def check_ports(first: int, count: int) -> None:
    """Raise unless `count` ports from `first` on are free."""
    if first + count > 65_536:
        raise ServiceError("--port", f"is {first}, and {count} ports are needed", "choose a lower one")
    for port in range(first, first + count):
        if not is_free(port):
            fix = f"end the other program, or choose another --port ({count} consecutive ones are needed)"
            raise ServiceError(f"{HOST}:{port}", "is in use by another program", fix)


def is_free(port: int) -> bool:
    """Whether it can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: closed connections do not count
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
