"""`sensecrypt dkms serve`: builds the service from its parts and runs it until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn

from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http.app import create_app
from sensecrypt.keyservice.http.certificates import check_pair
from sensecrypt.keyservice.http.connections import Connections, find_capacity
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.http.gate import Gate
from sensecrypt.keyservice.http.limits import thin_messages
from sensecrypt.keyservice.http.listener import Listener
from sensecrypt.keyservice.http.policy import read_policy
from sensecrypt.keyservice.http.processes import forbid_core_dumps
from sensecrypt.keyservice.http.refusals import Refusals
from sensecrypt.keyservice.http.service import KeyService
from sensecrypt.keyservice.http.storagecipher import read_root
from sensecrypt.keyservice.http.store import Store
from sensecrypt.keyservice.http.transport import CertifiedProtocol, server_context
from sensecrypt.keyservice.http.vaultkey import VaultProcess

_BACKLOG = 4096  # connections that the system keeps until they are accepted
_THREADS = 32  # for requests that wait for the disk
_KEEP_ALIVE_SECONDS, _SHUTDOWN_SECONDS = 30, 30


@dataclass(frozen=True)
class Endpoint:
    """The address to listen on, and the certificate."""

    host: str  # address
    port: int  # 0 for any free one
    certificate: Path  # the server's own
    key: Path  # its key
    authority: Path  # issues the certificates of clients


def serve(
    folder: Folder, passphrase: str, endpoint: Endpoint, *, workers: int, on_ready: Callable[[str], None]
) -> None:
    """Run the service until SIGINT or SIGTERM.

    `workers` processes decrypt; `on_ready` is called with the address when connections are accepted.
    """
    check_pair(endpoint.certificate, endpoint.key, endpoint.authority)
    forbid_core_dumps()
    policy = read_policy(folder.policy)
    capacity = find_capacity(policy)
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder.held())
        listener = stack.enter_context(_listen(endpoint))
        root = read_root(folder.root, passphrase)
        store = Store(folder.database, folder.log)
        stack.callback(store.close)
        vault = VaultProcess(passphrase)
        stack.callback(vault.close)
        service = KeyService(folder, root, store, vault, policy, workers=workers)
        refusals = Refusals(store, service.metrics, per_minute=policy.lines_per_minute)
        gate = Gate(create_app(service, refusals), policy, refusals, service.metrics)
        config = uvicorn.Config(
            gate,
            http=CertifiedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        config.load()
        context = server_context(
            endpoint.certificate, endpoint.key, endpoint.authority, on_failure=refusals.note_handshake
        )
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        thin_messages()
        store.note("started")
        host, port = listener.getsockname()[:2]
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after it has stopped
            signal.signal(number, lambda *_: None)
        ready = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        connections = Connections(capacity, service.metrics)

        def accept(listening: socket.socket, server: uvicorn.Server) -> Listener:
            header, handshake = policy.header_seconds, policy.handshake_seconds
            make = partial(
                CertifiedProtocol, config, server.server_state, connections=connections, header_seconds=header
            )
            return Listener(listening, context, connections, lambda peer: make(peer=peer), handshake_seconds=handshake)

        _Server(config, store, accept, lambda: on_ready(ready)).run([listener])
        if store.broken:
            fix = "check its disk, and start the service again: it repairs its state"
            raise ServiceError(str(folder.path), "cannot be written to", fix)
        store.note("stopped")


_Accept = Callable[[socket.socket, uvicorn.Server], Listener]


class _Server(uvicorn.Server):
    """Accepts connections within limits, and ends when its state cannot be written."""

    def __init__(self, config: uvicorn.Config, store: Store, accept: _Accept, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._store, self._accept, self._on_ready = store, accept, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with limits, in place of uvicorn's own method."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        self.servers = [self._accept(each, self) for each in sockets or []]  # type: ignore[misc]  # it closes them only
        self.started = True
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """End the service if its state cannot be written; its supervisor starts it again."""
        if self._store.broken:
            self.should_exit = self.force_exit = True
        return await super().on_tick(counter)


def _listen(endpoint: Endpoint) -> socket.socket:
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        family = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((endpoint.host, endpoint.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fix = "end the other program, or choose another --port"
            raise ServiceError(where, "is in use by another program", fix) from None
        raise ServiceError(
            where, f"cannot be listened on ({error.strerror})", "choose another --host or --port"
        ) from None
