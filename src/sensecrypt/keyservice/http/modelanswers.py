"""Limits models in memory for answers: one copy of each, bytes in all, and two answers at once per certificate.

A peer that does not read its answer keeps its place until the time limit for writing.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

from sensecrypt.keyservice.http.problems import refused
from sensecrypt.protocol.round import RoundAddress

_PER_HOLDER = 2


class ModelAnswers:
    """The models that are being sent."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._sizes: dict[RoundAddress, int] = {}
        self._answers: Counter[RoundAddress] = Counter()
        self._holders: Counter[str] = Counter()

    @contextlib.contextmanager
    def held(self, place: RoundAddress, size: int, holder: str) -> Iterator[None]:
        """Count a model of `size` bytes while it is sent to `holder`, or refuse it."""
        with self._lock:
            others = sum(self._sizes[each] for each in self._answers)
            if self._holders[holder] >= _PER_HOLDER:
                raise refused("rate-limited", f"{_PER_HOLDER} models are being sent to this certificate already")
            if place not in self._answers and others and others + size > self._most:
                raise refused("busy", "models for other clients take all memory that is set aside for them")
            self._sizes[place] = size
            self._answers[place] += 1
            self._holders[holder] += 1
        try:
            yield
        finally:
            with self._lock:
                self._answers[place] -= 1
                self._holders[holder] -= 1
                self._answers += Counter()  # removes models that are not being sent
                self._holders += Counter()
                self._sizes = {each: self._sizes[each] for each in self._answers}
