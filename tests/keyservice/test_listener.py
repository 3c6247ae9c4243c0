"""A listener for which the system has no descriptor goes on accepting when there is one again."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from typing import Any

import pytest

from sensecrypt.keyservice.http import listener as module
from sensecrypt.keyservice.http.connections import Capacity, Connections, Peer
from sensecrypt.keyservice.http.listener import Listener
from sensecrypt.keyservice.http.metrics import Metrics


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED])
def test_after_a_failed_accept_the_next_connection_is_accepted(monkeypatch, number):
    arrived: list[str] = []
    monkeypatch.setattr(module, "_PAUSE", 0.01)

    async def play() -> None:
        loop, failures = asyncio.get_running_loop(), iter([True, True, False])
        honest = loop.sock_accept

        async def sock_accept(sock: socket.socket) -> Any:
            if next(failures, False):
                raise OSError(number, os.strerror(number))
            return await honest(sock)

        monkeypatch.setattr(loop, "sock_accept", sock_accept)
        connections = Connections(Capacity(4, 4, 4, 4, 4), Metrics())
        honestly = connections.arrive

        def arrive(peer: Peer) -> None:
            arrived.append(peer.address)
            honestly(peer)

        monkeypatch.setattr(connections, "arrive", arrive)
        with socket.create_server(("127.0.0.1", 0)) as server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            listener = Listener(server, context, connections, lambda peer: None, handshake_seconds=1)
            with socket.create_connection(server.getsockname()):
                for _ in range(200):
                    await asyncio.sleep(0.01)
                    if arrived:
                        break
            listener.close()
            await listener.wait_closed()

    asyncio.run(play())
    assert arrived == ["127.0.0.1"]
