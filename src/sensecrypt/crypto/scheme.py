"""What every scheme offers: the contract that `tests/crypto/test_contract.py` holds each of them to.

Ciphertexts are rows of a uint8 matrix, all of one length; values are int64. A public key never decrypts.
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
    """A running sum of uploads: each is added when it arrives and then forgotten.

    Sums that leave their slot spill into the next one unnoticed: `FixedPoint` keeps that from happening. A ciphertext
    of another key whose numbers happen to be in range is noticed when the sum is decrypted, not before: whoever
    transports ciphertexts says which key (its fingerprint) they belong to.
    """

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add ciphertexts to the given rows of the sum (None: to all); nothing is changed if one is invalid."""

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """The sum so far, of the given rows (None: of all)."""


class EncryptionKey(Protocol):
    """The public side of a scheme."""

    @property
    def profile(self) -> Profile:
        """The parameter set."""

    @property
    def slots(self) -> int:
        """Values a ciphertext."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Fresh ciphertexts of the values, `slots` to a row, the last row filled up with zeros."""

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Ciphertexts of the sums, row by row."""

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Ciphertexts of the sums with known values; not re-randomised."""

    def accumulator(self, rows: int) -> Accumulator:
        """An empty running sum of uploads of that many rows."""


@runtime_checkable
class MultiplyingKey(EncryptionKey, Protocol):
    """The public side of a scheme whose ciphertexts can be multiplied by a number: its profiles say `multiplies`."""

    def multiply(self, a: Ciphertexts, factor: int) -> Ciphertexts:
        """Ciphertexts of the values times a whole number; the caller keeps the products within their slots."""


class DecryptionKey(Protocol):
    """The secret side of a scheme."""

    @property
    def public(self) -> EncryptionKey:
        """The key that goes with it."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """What the public key's `encrypt` does, faster where the secret helps."""

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """The first `count` values."""


class StorablePublicKey(EncryptionKey, Protocol):
    """A public key that key files hold."""

    @property
    def fingerprint(self) -> str:
        """Short name of the key, for people and logs."""


class StorableSecretKey(DecryptionKey, Protocol):
    """A secret key that key files hold."""

    @property
    def public(self) -> StorablePublicKey:
        """The key that goes with it."""


Public = TypeVar("Public", bound=StorablePublicKey)
Secret = TypeVar("Secret", bound=StorableSecretKey)


@dataclass(frozen=True)
class PublicScheme(Generic[Public]):
    """The public side of a scheme, for the registry `schemes`.

    Attributes:
        key: the type of its public keys.
        fields: what a key file says of a public key, besides profile and fingerprint.
        parse: the inverse of `fields`; raises what malformed fields raise, or InvalidKey.
    """

    key: type[Public]
    fields: Callable[[Public], dict[str, str]]
    parse: Callable[[Mapping[str, Any], Profile], Public]


@dataclass(frozen=True)
class SecretScheme(Generic[Public, Secret]):
    """The secret side of a scheme, for the registry `secretschemes`.

    Attributes:
        key: the type of its secret keys.
        generate: a fresh key from the operating system's randomness.
        serialize: the secret itself, which a key file encrypts.
        parse: the inverse of `serialize`, given the public key of the same file.
        constant_time: whether `decrypt` takes `constant_time`.
    """

    key: type[Secret]
    generate: Callable[[Profile], Secret]
    serialize: Callable[[Secret], bytes]
    parse: Callable[[bytes, Public], Secret]
    constant_time: bool = False


def multiplying(key: EncryptionKey) -> MultiplyingKey:
    """The same key, of a scheme that multiplies; any other is refused."""
    if not key.profile.multiplies or not isinstance(key, MultiplyingKey):
        problem = f"is of {key.profile.name}, whose ciphertexts cannot be multiplied"
        raise InvalidInput("key", problem, "choose a paillier profile, or let clients multiply by their weights")
    return key
