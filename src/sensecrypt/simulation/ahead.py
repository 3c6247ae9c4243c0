"""A Paillier key whose randomness counts as made before a round."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy.typing as npt

from sensecrypt.crypto.paillier.public import RandomizerMaker
from sensecrypt.crypto.paillier.randomizers import RandomizerPool
from sensecrypt.crypto.scheme import Ciphertexts, DecryptionKey, EncryptionKey


class AheadKey:
    """Encrypts with a pool that `make_ahead` fills; in everything else the key inside."""

    def __init__(self, key: EncryptionKey | DecryptionKey) -> None:
        """Wrap either half; configurations allow it for Paillier only."""
        self._key = cast("_Pooled", key)
        self._pool = RandomizerPool(self._key.public, self._key)

    def make_ahead(self, rows: int) -> None:
        """Make randomness for so many ciphertexts."""
        self._pool.fill(rows)

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Ciphertexts with the randomness that is there."""
        return self._key.encrypt(ints, workers=workers, pool=self._pool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key, name)


class _Pooled(RandomizerMaker, Protocol):
    """A Paillier key, of either half, that takes its randomness from a pool."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: RandomizerPool | None = None) -> Ciphertexts: ...
