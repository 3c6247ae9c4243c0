"""How often somebody may ask, and how often a refusal of strangers is written down."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

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


class Thinned:
    """Lets so many events a minute through and counts the others, so that strangers cannot fill the disk."""

    def __init__(self, *, per_minute: int = 60) -> None:
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
