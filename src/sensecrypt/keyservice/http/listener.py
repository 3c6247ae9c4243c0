"""Accepts connections: counted before TLS begins, with a limit on how long a handshake may take.

uvicorn and asyncio accept without limits, and wait a minute for a handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable

from sensecrypt.keyservice.http.connections import Connections, Peer
from sensecrypt.keyservice.http.transport import CertifiedProtocol

_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 0.1  # seconds, when the system has no descriptor or memory for another connection
_CLOSE_SECONDS = 5.0  # for a peer to take part in closing TLS


class Listener:
    """Accepts on one socket until it is closed; uvicorn uses it as one of its servers."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        connections: Connections,
        make_protocol: Callable[[Peer], CertifiedProtocol],
        *,
        handshake_seconds: float,
    ) -> None:
        """Begin to accept; `make_protocol` gives every connection its protocol."""
        self._socket, self._context, self._connections = listener, context, connections
        self._make_protocol = make_protocol
        self._handshake_seconds = handshake_seconds
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Stop accepting, and end handshakes that are not done."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until they have ended."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # connected peers are served before the next one is accepted
            try:
                accepted, address = await loop.sock_accept(self._socket)
            except OSError as error:
                if error.errno in _SHORT:
                    await asyncio.sleep(_PAUSE)
                continue
            peer = Peer(str(address[0]), lambda: None)
            task = loop.create_task(self._shake(accepted, peer))
            peer.drop = task.cancel
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            self._connections.arrive(peer)

    async def _shake(self, accepted: socket.socket, peer: Peer) -> None:
        """Do a handshake; afterwards asyncio has closed the socket or serves it."""
        try:
            with contextlib.suppress(OSError):  # the TLS context reports what TLS itself refuses
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: self._make_protocol(peer),
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._handshake_seconds,
                    ssl_shutdown_timeout=_CLOSE_SECONDS,
                )
        finally:
            self._connections.end_handshake(peer)
