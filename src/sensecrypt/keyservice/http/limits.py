"""Limits on the requests of a certificate, and on the log lines that they cause."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator

from sensecrypt.keyservice.http.problems import refused

_MOST_NAMES = 100_000


class Buckets:
    """Token buckets, one per name: `burst` tokens at once, `rate` per second after that."""

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> bool:
        """Take a token; False if there is none."""
        now = time.monotonic()
        with self._lock:
            level, since = self._levels.pop(name, (self._burst, now))
            level = min(self._burst, level + (now - since) * self._rate)
            granted = level >= 1
            self._levels[name] = (level - 1 if granted else level, now)
            if len(self._levels) > _MOST_NAMES:
                self._levels.popitem(last=False)
            return granted


class WaitingSums:
    """A number of places for sums that wait for decryption; one aggregator gets at most half of them."""

    def __init__(self, places: int) -> None:
        self._places, self._own = places, max(1, places // 2)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold a place while a sum of that aggregator arrives, waits and is decrypted; refuse it if none is free."""
        with self._lock:
            if self._taken[name] >= self._own or self._taken.total() >= self._places:
                raise refused("busy", f"{self._taken.total()} sums wait for decryption, {self._taken[name]} of {name}")
            self._taken[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[name] -= 1
                self._taken += Counter()  # removes names without a place


class Thinned:
    """Limits the events of each kind per minute and counts the others, so that log lines cannot fill the disk."""

    def __init__(self, *, per_minute: int) -> None:
        self._buckets = Buckets(rate=per_minute / 60, burst=per_minute)
        self._skipped: dict[str, int] = {}
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def passes(self, kind: str) -> int | None:
        """The number of events of this kind skipped since the last that passed; None if this one is skipped."""
        granted = self._buckets.take(kind)
        with self._lock:
            if granted:
                return self._skipped.pop(kind, 0)
            self._skipped[kind] = self._skipped.get(kind, 0) + 1
            return None

    def passes_first(self, kind: str, event: str) -> int | None:
        """0 for the first occurrence of this event; then as `passes`."""
        with self._lock:
            known = event in self._known
            self._known[event] = None
            if len(self._known) > _MOST_NAMES:
                self._known.popitem(last=False)
        return self.passes(kind) if known else 0


class _ThinMessages(logging.Filter):
    """Limits the lines per minute of one message, whatever its arguments."""

    def __init__(self, per_minute: int) -> None:
        super().__init__()
        self._thinned = Thinned(per_minute=per_minute)

    def filter(self, record: logging.LogRecord) -> bool:
        skipped = self._thinned.passes(f"{record.name} {str(record.msg)[:200]}")
        if skipped:
            record.msg = f"{record.msg} ({skipped} more since the last line)"
        return skipped is not None


def thin_messages(*, per_minute: int = 60) -> None:
    """Limit the lines on the process's error output, as peers can cause some of them."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_ThinMessages(per_minute))
