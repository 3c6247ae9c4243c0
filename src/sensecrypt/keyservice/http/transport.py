"""Mutual TLS under uvicorn: passes the peer's certificate to the application, and reports failed handshakes.

Certificates are optional for the handshake and required by the application, so that a peer without one gets an answer
with the reason. TLS itself refuses a certificate of another authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sensecrypt.errors import CertificateError, Refused
from sensecrypt.keyservice.http.certificates import identity_of
from sensecrypt.keyservice.http.connections import Connections, Peer


class CertifiedProtocol(H11Protocol):
    """HTTP/1.1 that puts the verified certificate of its peer, if any, into every request's state.

    It takes its place among the connections when the handshake is done, and closes if a request's header is late.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        *,
        peer: Peer,
        connections: Connections,
        header_seconds: float,
    ) -> None:
        super().__init__(config, state, {})
        self._peer, self._connections, self._header_seconds = peer, connections, header_seconds
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Read the certificate, and close the connection if its holder has no place."""
        super().connection_made(transport)
        peer = transport.get_extra_info("ssl_object")
        certificate = None if peer is None else peer.getpeercert(binary_form=True)
        self.app_state = {"certificate": certificate, "abort": transport.abort}
        self._peer.drop, self._peer.is_busy = transport.abort, self._is_busy
        if self._connections.settle(self._peer, _holder(certificate)):
            self._await_header()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; the time limit of a header starts with its first byte."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_timer()
        elif not self._is_busy() and self._header_timer is None:
            self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the place."""
        self._stop_timer()
        self._connections.leave(self._peer)
        super().connection_lost(exc)

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_header(self) -> None:
        self._header_timer = self.loop.call_later(self._header_seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def _holder(certificate: bytes | None) -> str | None:
    """The holder of a connection's place; a certificate without a role counts as none."""
    if certificate is None:
        return None
    try:
        return str(identity_of(certificate))
    except Refused:
        return None


def server_context(
    certificate: Path, key: Path, authority: Path, *, on_failure: Callable[[str], None]
) -> ssl.SSLContext:
    """TLS 1.3 with the server's certificate and key, which verifies client certificates against `authority`.

    `on_failure` is called with the reason of a failed handshake, in the event loop's thread.
    """

    class Watched(ssl.SSLObject):
        """Reports failures that asyncio does not report: to the service, and to the peer by a TLS alert."""

        _failure: ssl.SSLError | None = None

        def do_handshake(self) -> None:
            if self._failure is not None:
                raise self._failure
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self._failure = error
                on_failure(str(getattr(error, "verify_message", None) or error.reason))
                # asyncio would close without sending the alert; if it must wait, it sends it and then tries again.
                raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert must be sent first") from None

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_OPTIONAL
    context.sslobject_class = Watched
    try:
        context.load_cert_chain(certificate, key, password="")
        context.load_verify_locations(authority)
    except (OSError, ValueError):
        fix = "check the three files: sensecrypt pki init and issue make them"
        raise CertificateError(str(certificate), "and its key and authority cannot be loaded", fix) from None
    return context
