"""The interface of every scheme; `tests/crypto/test_contract.py` tests all schemes against it.

Ciphertexts are rows of a uint8 matrix, all of the same length; values are int64. A public key never decrypts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import Profile

Ciphertexts = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.int64]


class Accumulator(Protocol):
    """A running sum of uploads: each is added when it arrives and is not stored.

    A sum that overflows its slot silently changes the next slot; `FixedPoint` prevents this. A ciphertext of another
    key whose numbers are in range is only detected when the sum is decrypted. Messages therefore contain the
    fingerprint of the key of their ciphertexts.
    """

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add ciphertexts to the given rows of the sum (None: to all); if one is invalid, raise and change nothing."""

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """Return the given rows of the sum so far (None: all rows)."""


class EncryptionKey(Protocol):
    """The public side of a scheme."""

    @property
    def profile(self) -> Profile:
        """The parameter set."""

    @property
    def slots(self) -> int:
        """Values per ciphertext."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Return fresh ciphertexts of the values, `slots` per row; the last row is filled with zeros."""

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Return ciphertexts of the row-wise sums."""

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Return ciphertexts of the sums with known values; they are not re-randomised."""

    def accumulator(self, rows: int) -> Accumulator:
        """Return an empty running sum of uploads of that many rows."""


@runtime_checkable
class MultiplyingKey(EncryptionKey, Protocol):
    """The public side of a scheme whose ciphertexts can be multiplied by a number (`Profile.multiplies`)."""

    def multiply(self, a: Ciphertexts, factor: int) -> Ciphertexts:
        """Return ciphertexts of the values times an integer; the caller ensures that products fit their slots."""


class DecryptionKey(Protocol):
    """The secret side of a scheme."""

    @property
    def public(self) -> EncryptionKey:
        """The public key of this pair."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Return fresh ciphertexts, like the public key's `encrypt`, but faster in some schemes."""

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """Return the first `count` values."""


class StorablePublicKey(EncryptionKey, Protocol):
    """A public key that can be stored in key files."""

    @property
    def fingerprint(self) -> str:
        """A short identifier of the key, for users and logs."""


class StorableSecretKey(DecryptionKey, Protocol):
    """A secret key that can be stored in key files."""

    @property
    def public(self) -> StorablePublicKey:
        """The public key of this pair."""


Public = TypeVar("Public", bound=StorablePublicKey)
Secret = TypeVar("Secret", bound=StorableSecretKey)


@dataclass(frozen=True)
class PublicScheme(Generic[Public]):
    """The public side of a scheme, for the registry `schemes`.

    Attributes:
        key: the type of its public keys.
        fields: returns the fields of a public key in a key file, without profile and fingerprint.
        parse: the inverse of `fields`; raises InvalidKey or one of `publicfile.DAMAGE` for malformed fields.
    """

    key: type[Public]
    fields: Callable[[Public], dict[str, str]]
    parse: Callable[[Mapping[str, Any], Profile], Public]


@dataclass(frozen=True)
class SecretScheme(Generic[Public, Secret]):
    """The secret side of a scheme, for the registry `secretschemes`.

    Attributes:
        key: the type of its secret keys.
        generate: returns a fresh key from the operating system's randomness.
        serialize: returns the secret bytes, which a key file encrypts.
        parse: the inverse of `serialize`, given the public key of the same file.
        constant_time: whether `decrypt` takes `constant_time`.
    """

    key: type[Secret]
    generate: Callable[[Profile], Secret]
    serialize: Callable[[Secret], bytes]
    parse: Callable[[bytes, Public], Secret]
    constant_time: bool = False


def multiplying(key: EncryptionKey) -> MultiplyingKey:
    """Return `key`; raise if its ciphertexts cannot be multiplied."""
    if not key.profile.multiplies or not isinstance(key, MultiplyingKey):
        problem = f"is of {key.profile.name}, whose ciphertexts cannot be multiplied"
        raise InvalidInput("key", problem, "choose a paillier profile, or let clients multiply by their weights")
    return key
