"""Counts refusals, writes them into the audit log, and answers them with problem documents."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import Response

from sensecrypt.errors import Refused
from sensecrypt.keyservice.http import problems
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.limits import Thinned
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.store import Store

_STRANGERS_PER_MINUTE = 60  # lines per code, of all peers without a certificate
_ALL_PER_MINUTE = 1000  # lines of all peers with one


class Refusals:
    """The refusals of one service."""

    def __init__(self, store: Store, metrics: Metrics, *, per_minute: int) -> None:
        """Write at most `per_minute` lines about one certificate; further ones are counted."""
        self._store, self._metrics = store, metrics
        self._strangers = Thinned(per_minute=_STRANGERS_PER_MINUTE)
        self._certified, self._all = Thinned(per_minute=per_minute), Thinned(per_minute=_ALL_PER_MINUTE)

    async def answer(self, error: Refused, scope: MutableMapping[str, Any]) -> Response:
        """The answer, after the audit line is on disk."""
        facts = {"reason": error.reason, "method": scope["method"], "path": scope["path"]}
        if client := scope.get("client"):
            facts["address"] = str(client[0])
        try:
            await asyncio.to_thread(self._note, error.code, scope["state"].get("who"), facts)
        except Refused as broken:  # the log cannot be written
            error = broken
        status = problems.status_of(error)
        headers = {"retry-after": "1"} if status in (429, 503) else {}
        return Response(problems.document(error), status, headers, problems.MEDIA_TYPE)

    def note_handshake(self, reason: str) -> None:
        """Write a line about a failed handshake, which gets no answer. Call it in the event loop."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, self._note, "handshake-failed", None, {"reason": reason})
        future.add_done_callback(lambda done: done.exception())  # a log that fails is noticed by the next request

    def _note(self, code: str, who: Identity | None, facts: dict[str, str]) -> None:
        self._metrics.count("refusals", label=f'code="{code}"')
        if who is None:
            skipped = self._strangers.passes(code)
        else:
            skipped = self._certified.passes(str(who))
            if skipped is not None and self._all.passes("") is None:
                skipped = None
        if skipped is not None:
            more = {"and_more_before": skipped} if skipped else {}
            self._store.note("refused", who, code=code, **facts, **more)
