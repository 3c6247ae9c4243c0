"""Models in memory for answers: one copy of each, so many megabytes in all, and two answers at once per certificate.

A peer that does not read its answer holds a place here, until the time for writing is over.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sensecrypt.keyservice.http.problems import refused
from sensecrypt.protocol.round import RoundAddress

_PER_HOLDER = 2


class Answers:
    """What is being sent."""

    def __init__(self, most_bytes: int) -> None:
        """Nothing yet."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._places: dict[RoundAddress, tuple[int, int]] = {}  # how many answers of it, and its bytes
        self._holders: dict[str, int] = {}

    @contextlib.contextmanager
    def held(self, place: RoundAddress, size: int, holder: str) -> Iterator[None]:
        """Hold a model of so many bytes for as long as it is being sent to `holder`."""
        self._take(place, size, holder)
        try:
            yield
        finally:
            self._give_back(place, holder)

    def _take(self, place: RoundAddress, size: int, holder: str) -> None:
        with self._lock:
            count, _ = self._places.get(place, (0, size))
            others = sum(each for _, each in self._places.values())
            if self._holders.get(holder, 0) >= _PER_HOLDER:
                raise refused("rate-limited", f"{_PER_HOLDER} models are being sent to this certificate already")
            if not count and others and others + size > self._most:
                raise refused("busy", "models for other clients take all memory that is set aside for them")
            self._places[place] = count + 1, size
            self._holders[holder] = self._holders.get(holder, 0) + 1

    def _give_back(self, place: RoundAddress, holder: str) -> None:
        with self._lock:
            count, size = self._places.pop(place)
            if count > 1:
                self._places[place] = count - 1, size
            if self._holders[holder] > 1:
                self._holders[holder] -= 1
            else:
                del self._holders[holder]
