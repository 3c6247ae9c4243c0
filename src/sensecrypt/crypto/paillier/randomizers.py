"""Randomness made ahead: with a filled pool, encrypting is one multiplication.

An randomizer that hides two plaintexts reveals their difference. So a pool gives each away once: `take` removes what it
returns under a lock, a pool cannot be copied or pickled, and any process but the one that filled it finds it empty.
What this cannot see is a snapshot of the whole machine that is started twice.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import NoReturn, SupportsIndex

from sensecrypt import checks
from sensecrypt.crypto.paillier.fixedbase import Pair
from sensecrypt.crypto.paillier.public import PublicKey, RandomizerMaker, fresh_randomizers
from sensecrypt.crypto.parallel import spread
from sensecrypt.errors import InvalidKey

MAX_POOL = 10**7


class RandomizerPool:
    """A store of randomizers of one key, to be filled in idle time."""

    def __init__(self, public: PublicKey, maker: RandomizerMaker | None = None) -> None:
        """An empty pool for `public`; a secret key as `maker` fills it twice as fast."""
        self._public = public
        self._maker = maker or public
        if self._maker.public != public:
            raise InvalidKey("maker", "is another key", "fill the pool with the key that it is for")
        self._forget()

    def fill(self, count: int, *, workers: int = 1) -> None:
        """Make `count` more randomizers."""
        made = spread(
            lambda start, stop: self._public.write(fresh_randomizers(self._public, self._maker, stop - start)),
            checks.whole("count", count, low=1, high=MAX_POOL),
            workers=workers,
            seconds_per_row=self._public.seconds_per_row,
            prepare=self._maker.prepare,
        )
        pairs = self._public.parse("randomizers", made)
        self._forget_after_fork()
        with self._lock:
            self._ready.extend(pairs)

    def take(self, count: int, public: PublicKey) -> list[Pair]:
        """Up to `count` randomizers, which are gone from the pool."""
        if public != self._public:
            raise InvalidKey("pool", "was made for another key", "fill a pool for the key that encrypts")
        self._forget_after_fork()
        with self._lock:
            return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    def __len__(self) -> int:
        self._forget_after_fork()
        return len(self._ready)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"RandomizerPool({len(self)} for {self._public!r})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("an RandomizerPool cannot be copied or pickled: each randomizer may be used only once")

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ready: deque[Pair] = deque()

    def _forget_after_fork(self) -> None:
        """What was made before a fork belongs to the parent; the lock may be held by a thread that is not here."""
        if self._owner != os.getpid():
            self._forget()
