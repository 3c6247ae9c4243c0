"""Admission of requests: reads the sender's identity, limits its rate, and limits the time for an answer.

It uses ASGI directly, so that no part of a request is parsed, and no body read, before its sender is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sensecrypt._version import __version__
from sensecrypt.errors import Refused
from sensecrypt.keyservice.http.addresses import PROTOCOL, PROTOCOL_HEADER
from sensecrypt.keyservice.http.certificates import identity_of
from sensecrypt.keyservice.http.limits import Buckets
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.refusals import Refusals

OPEN_TO_ALL = ("/healthz",)
_HEADERS = [
    (PROTOCOL_HEADER.lower().encode(), PROTOCOL.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]
_PIECE = 1 << 16
_log = logging.getLogger("sensecrypt.dkms")


class Gate:
    """An ASGI application around the service's own."""

    def __init__(self, app: ASGIApp, policy: Policy, refusals: Refusals, metrics: Metrics) -> None:
        self._app, self._policy, self._refusals, self._metrics = app, policy, refusals, metrics
        self._requests = Buckets(rate=policy.requests_per_second, burst=policy.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with a refusal."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
                self._metrics.count("requests", label=f'status="{message["status"]}"')
            for piece in _pieces(message):
                try:
                    async with asyncio.timeout(self._policy.write_seconds):
                        await send(piece)
                except TimeoutError:  # its peer does not read
                    self._metrics.count("answers_given_up")
                    scope["state"]["abort"]()
                    return

        try:
            if scope["path"] not in OPEN_TO_ALL:
                self._admit(scope)
        except Refused as error:
            response = await self._refusals.answer(error, scope)
            await response(scope, receive, sending)
            return
        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # it was answered with status 500 already
            _log.error("%s %s failed: %s", scope["method"], scope["path"][:200], type(error).__name__, exc_info=True)

    def _admit(self, scope: Scope) -> None:
        """Put the sender's identity into the request's state, or raise `Refused`."""
        certificate = scope["state"].get("certificate")
        if certificate is None:
            raise refused("no-certificate", "the connection has no client certificate")
        who = scope["state"]["who"] = identity_of(certificate)
        if who.name in self._policy.denied:
            raise refused("denied", f"the policy denies {who.name}")
        if not self._requests.take(str(who)):
            raise refused("rate-limited", f"{who.name} asks too often")
        spoken = dict(scope["headers"]).get(PROTOCOL_HEADER.lower().encode())
        if spoken is not None and spoken != PROTOCOL.encode():
            reason = f"this service speaks protocol {PROTOCOL} (sensecrypt {__version__}), the request another"
            raise refused("other-version", reason)


def _pieces(message: Message) -> Iterator[Message]:
    """A body in pieces, so that the next one is buffered only after the peer has read one."""
    body = message.get("body", b"")
    if len(body) <= _PIECE:
        yield message
        return
    for start in range(0, len(body), _PIECE):
        more = start + _PIECE < len(body) or message.get("more_body", False)
        yield {**message, "body": bytes(body[start : start + _PIECE]), "more_body": more}
