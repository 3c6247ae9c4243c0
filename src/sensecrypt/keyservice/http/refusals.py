"""What becomes of a refusal: counted, written into the audit log, and answered with a problem document."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import Response

from sensecrypt.errors import Refused
from sensecrypt.keyservice.http import problems
from sensecrypt.keyservice.http.limits import Thinned
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.store import Store

_STRANGERS_PER_MINUTE = 60  # lines of one code, of all who have no certificate
_ALL_PER_MINUTE = 1000  # lines of all who have one


class Refusals:
    """Of one service."""

    def __init__(self, store: Store, metrics: Metrics, *, per_minute: int) -> None:
        """Told to this log and these counters; `per_minute` lines about one certificate, the others are counted."""
        self._store, self._metrics = store, metrics
        self._strangers = Thinned(per_minute=_STRANGERS_PER_MINUTE)
        self._certified, self._all = Thinned(per_minute=per_minute), Thinned(per_minute=_ALL_PER_MINUTE)

    async def answer(self, error: Refused, scope: MutableMapping[str, Any]) -> Response:
        """The answer, after the audit line is on disk."""
        facts = {"reason": error.reason, "method": scope["method"], "path": scope["path"]}
        if who := scope["state"].get("who"):
            facts |= {"role": who.role, "name": who.name}
        if client := scope.get("client"):
            facts["address"] = str(client[0])
        try:
            await asyncio.to_thread(self._note, error.code, facts)
        except Refused as broken:  # the log cannot be written: then this is the reason
            error = broken
        status = problems.status_of(error)
        headers = {"retry-after": "1"} if status in (429, 503) else {}
        return Response(problems.document(error), status, headers, problems.MEDIA_TYPE)

    def note_handshake(self, reason: str) -> None:
        """A handshake failed: no answer can be given, but an audit line is written. Call it in the event loop."""
        future = asyncio.get_running_loop().run_in_executor(None, self._note, "handshake-failed", {"reason": reason})
        future.add_done_callback(lambda done: done.exception())  # a log that fails is noticed by the next request

    def _note(self, code: str, facts: dict[str, str]) -> None:
        self._metrics.count("refusals", label=f'code="{code}"')
        skipped = self._passes(code, facts)
        if skipped is not None:
            more = {"and_more_before": skipped} if skipped else {}
            self._store.note({"event": "refused", "code": code, **facts, **more})

    def _passes(self, code: str, facts: dict[str, str]) -> int | None:
        """Whoever can trigger lines could fill the disk with them."""
        if "name" not in facts:
            return self._strangers.passes(code)
        skipped = self._certified.passes(f"{facts['role']} {facts['name']}")
        return skipped if skipped is None or self._all.passes("") is not None else None
