"""A Paillier key whose randomizers are computed before the round and not counted in its time."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy.typing as npt

from sensecrypt.crypto.paillier.public import RandomizerMaker
from sensecrypt.crypto.paillier.randomizers import RandomizerPool
from sensecrypt.crypto.scheme import Ciphertexts, DecryptionKey, EncryptionKey


class AheadKey:
    """A Paillier key that encrypts with randomizers from a pool, which `make_ahead` fills."""

    def __init__(self, key: EncryptionKey | DecryptionKey) -> None:
        """Wrap a public or a secret key. Configurations allow `randomness = "ahead"` for Paillier only."""
        self._key = cast("_Pooled", key)
        self._pool = RandomizerPool(self._key.public, self._key)

    def make_ahead(self, rows: int) -> None:
        """Compute the randomizers of `rows` ciphertexts."""
        self._pool.fill(rows)

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Encrypt with randomizers from the pool."""
        return self._key.encrypt(ints, workers=workers, pool=self._pool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key, name)


class _Pooled(RandomizerMaker, Protocol):
    """A public or secret Paillier key whose `encrypt` accepts a pool of randomizers."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: RandomizerPool | None = None) -> Ciphertexts: ...
