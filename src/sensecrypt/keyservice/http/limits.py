"""How often somebody may ask, and how often a refusal of strangers is written down."""

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
    """Token buckets, one a name: `burst` at once, `rate` a second after that."""

    def __init__(self, *, rate: float, burst: float) -> None:
        """All full."""
        self._rate, self._burst = rate, burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> bool:
        """Take a token, or False if there is none."""
        now = time.monotonic()
        with self._lock:
            level, since = self._levels.pop(name, (self._burst, now))
            level = min(self._burst, level + (now - since) * self._rate)
            granted = level >= 1
            self._levels[name] = (level - 1 if granted else level, now)
            if len(self._levels) > _MOST_NAMES:
                self._levels.popitem(last=False)
            return granted


class Line:
    """So many places for sums that wait for decryption, at most half of them for one aggregator."""

    def __init__(self, places: int) -> None:
        """All free."""
        self._places, self._own = places, max(1, places // 2)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Take a place for as long as a sum of that aggregator arrives, waits and is decrypted; or refuse it."""
        with self._lock:
            if self._taken[name] >= self._own or self._taken.total() >= self._places:
                raise refused("busy", f"{self._taken.total()} sums wait for decryption, {self._taken[name]} of {name}")
            self._taken[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[name] -= 1
                self._taken += Counter()  # names without a place go


class Thinned:
    """Lets so many events of a kind through per minute and counts the others, so that nobody can fill the disk."""

    def __init__(self, *, per_minute: int) -> None:
        """Nothing counted yet."""
        self._buckets = Buckets(rate=per_minute / 60, burst=per_minute)
        self._skipped: dict[str, int] = {}
        self._lock = threading.Lock()

    def passes(self, kind: str) -> int | None:
        """How many of this kind were skipped since the last that passed; None if this one is skipped."""
        granted = self._buckets.take(kind)
        with self._lock:
            if granted:
                return self._skipped.pop(kind, 0)
            self._skipped[kind] = self._skipped.get(kind, 0) + 1
            return None


class Repeated:
    """Lets everything through the first time, and of what comes again so many per minute and kind."""

    def __init__(self, *, per_minute: int) -> None:
        """Nothing came yet."""
        self._thinned = Thinned(per_minute=per_minute)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def passes(self, kind: str, what: str) -> int | None:
        """As `Thinned.passes`."""
        with self._lock:
            known = what in self._known
            self._known[what] = None
            if len(self._known) > _MOST_NAMES:
                self._known.popitem(last=False)
        return self._thinned.passes(kind) if known else 0


class _ThinMessages(logging.Filter):
    """Of one message, so many lines per minute: whatever arguments it has."""

    def __init__(self, per_minute: int) -> None:
        super().__init__()
        self._thinned = Thinned(per_minute=per_minute)

    def filter(self, record: logging.LogRecord) -> bool:
        skipped = self._thinned.passes(f"{record.name} {str(record.msg)[:200]}")
        if skipped:
            record.msg = f"{record.msg} ({skipped} more since the last line)"
        return skipped is not None


def thin_messages(*, per_minute: int = 60) -> None:
    """Limit what the process writes to its error output: peers can trigger some of it."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_ThinMessages(per_minute))
