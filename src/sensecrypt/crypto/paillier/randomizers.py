"""Precomputed randomizers: with a filled pool, encryption is one multiplication.

A randomizer that is used for two plaintexts reveals their difference. So a pool returns each randomizer once: `take`
removes it under a lock, a pool cannot be copied or pickled, and it is empty in every process but the one that filled
it. This does not protect against a snapshot of a whole machine that is started twice.
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
    """A store of randomizers of one key, which can be filled in idle time."""

    def __init__(self, public: PublicKey, maker: RandomizerMaker | None = None) -> None:
        """Create an empty pool for `public`; with the secret key as `maker`, filling is twice as fast."""
        self._public = public
        self._maker = maker or public
        if self._maker.public != public:
            raise InvalidKey("maker", "is another key", "pass the secret key of `public`")
        self._forget()

    def fill(self, count: int, *, workers: int = 1) -> None:
        """Compute `count` more randomizers."""
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
        """Remove and return up to `count` randomizers."""
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
        raise TypeError("a RandomizerPool cannot be copied or pickled: each randomizer may be used only once")

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ready: deque[Pair] = deque()

    def _forget_after_fork(self) -> None:
        """Empty the pool in a forked child: its content belongs to the parent, and its lock may be held there."""
        if self._owner != os.getpid():
            self._forget()
