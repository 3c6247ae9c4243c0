"""Mutual TLS under uvicorn: the peer's certificate reaches the application, and a failed handshake is told.

Certificates are optional for the handshake and required by the application: so whoever has none gets an answer that
says so, and whoever has one of another authority is refused by TLS itself.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from uvicorn.protocols.http.h11_impl import H11Protocol

from sensecrypt.errors import CertificateError


class CertifiedProtocol(H11Protocol):
    """HTTP/1.1 that puts the verified certificate of its peer, if any, into every request's state."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Read the certificate once a connection."""
        super().connection_made(transport)
        peer = transport.get_extra_info("ssl_object")
        certificate = None if peer is None else peer.getpeercert(binary_form=True)
        self.app_state = {**self.app_state, "certificate": certificate}


def server_context(
    certificate: Path, key: Path, authority: Path, *, on_failure: Callable[[str], None]
) -> ssl.SSLContext:
    """TLS 1.3 that verifies client certificates against `authority` and tells why a handshake failed.

    Args:
        certificate: the server's own.
        key: its key.
        authority: who issues certificates of clients.
        on_failure: called with the reason, in the event loop's thread.
    """

    class Watched(ssl.SSLObject):
        """Tells of failures that asyncio keeps to itself: to us, and by TLS's own alert to the peer."""

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
                # asyncio would close without sending the alert. Told to wait, it sends it, and then asks once more.
                raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert is to be sent first") from None

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
