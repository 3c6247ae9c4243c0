"""The common base of all schemes' keys and running sums, and checks of their arguments."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, Generic, NoReturn, SupportsIndex, TypeVar

import numpy as np

from sensecrypt import checks
from sensecrypt.crypto.encoding import rows_of
from sensecrypt.crypto.scheme import Ciphertexts, RowNumbers
from sensecrypt.errors import InvalidCiphertext, InvalidInput, InvalidKey
from sensecrypt.profiles import Profile, get_profile

Upload = TypeVar("Upload")


class PublicKeyBase:
    """The identity of a public key: its profile and a digest of its content."""

    __slots__ = ("_digest", "_profile")

    def __init__(self, profile: Profile, digest: bytes) -> None:
        """Store the profile and the digest."""
        self._profile, self._digest = profile, digest

    @property
    def profile(self) -> Profile:
        """The parameter set."""
        return self._profile

    @property
    def slots(self) -> int:
        """Values per ciphertext."""
        return self._profile.slots

    @property
    def fingerprint(self) -> str:
        """A short identifier of the key, for users and logs."""
        return self._digest.hex()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._profile.name}, {self.fingerprint})"


class SecretKeyBase:
    """A secret key: it cannot be pickled or copied, and its `repr` is redacted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>, {self.public!r})"  # type: ignore[attr-defined]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied; write it with sensecrypt.crypto.keyfile")

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} does not show its state")


class RunningSum(ABC, Generic[Upload]):
    """A running sum of uploads of any scheme. It counts the summands of each row."""

    def __init__(self, rows: int, profile: Profile) -> None:
        """Start with no summands."""
        self._counts = np.zeros(checks.whole("rows", rows, low=1, high=2**28), dtype=np.int64)
        self._most = profile.max_summands
        self._lock = threading.Lock()

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add ciphertexts to the given rows of the sum (None: to all); if one is invalid, raise and change nothing."""
        upload = self._read(ciphertexts)
        chosen = check_rows(rows, self._counts.size, len(ciphertexts))
        with self._lock:
            if self._most is not None and (self._counts[chosen] >= self._most).any():
                problem = f"would be summand {self._most + 1:,} of a row; sums are exact up to {self._most:,}"
                raise InvalidInput("ciphertexts", problem, "decrypt the sum and start another one")
            self._add(upload, chosen)
            self._counts[chosen] += 1

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """Return the given rows of the sum so far (None: all rows)."""
        chosen = check_rows(rows, self._counts.size)
        with self._lock:
            if not chosen.size or not self._counts[chosen].all():
                raise InvalidInput("accumulator", "has rows to which nothing was added", "add at least one upload")
            return self._sums(chosen)

    @abstractmethod
    def _read(self, ciphertexts: Ciphertexts) -> Upload:
        """Check ciphertexts and return them in the form that `_add` takes."""

    @abstractmethod
    def _add(self, upload: Upload, rows: RowNumbers) -> None:
        """Add an upload to these rows, or raise and change nothing."""

    @abstractmethod
    def _sums(self, rows: RowNumbers) -> Ciphertexts:
        """Return the sums of these rows, each of at least one upload."""


def profile_of(scheme: str, profile: str | Profile) -> Profile:
    """Return the profile of that name; raise if it is of another scheme."""
    chosen = get_profile(profile)
    if chosen.scheme != scheme:
        raise InvalidKey("profile", f"is {chosen.name}", f"choose one of the {scheme} profiles")
    return chosen


def check_count(count: Any, rows: int, slots: int) -> int:
    """Return `count`; raise if that many values do not take exactly `rows` rows."""
    if rows_of(checks.whole("count", count, low=1, high=2**40), slots) != rows:
        problem = f"is {count:,}, but {rows:,} rows hold {slots * (rows - 1) + 1:,} to {slots * rows:,} values"
        raise InvalidInput("count", problem, "pass the number of encrypted values")
    return int(count)


def check_shape(argument: str, ciphertexts: object, width: int) -> Ciphertexts:
    """Return `ciphertexts`; raise if they are not a matrix of bytes with at least one row, each of `width` bytes."""
    if not isinstance(ciphertexts, np.ndarray) or ciphertexts.dtype != np.uint8 or ciphertexts.ndim != 2:
        fix = "pass the result of encrypt, one row per ciphertext"
        raise InvalidCiphertext(argument, "is not a matrix of bytes", fix)
    if len(ciphertexts) == 0 or ciphertexts.shape[1] != width:
        fix = f"pass rows of exactly {width:,} bytes; these may be truncated or of another key"
        raise InvalidCiphertext(argument, f"has shape {ciphertexts.shape}", fix)
    return ciphertexts


def same_rows(expected: int, got: int) -> None:
    """Raise if the operands have different numbers of rows."""
    if got != expected:
        problem = f"has {got:,} rows, but a has {expected:,}"
        raise InvalidCiphertext("b", problem, "add ciphertexts of the same number of values")


def check_rows(rows: RowNumbers | None, total: int, got: int | None = None) -> RowNumbers:
    """Return ascending row numbers of a sum of `total` rows; raise if they are invalid or not `got` in number."""
    if rows is None:
        chosen = np.arange(total)
    else:
        fix = f"pass ascending numbers in 0 … {total - 1:,}"
        array = np.asarray(rows)
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and int(array.max()) >= total):
            raise InvalidCiphertext("rows", "are not row numbers of this sum", fix)
        chosen = array.astype(np.int64)
        if chosen.size and (chosen[0] < 0 or (np.diff(chosen) <= 0).any()):
            raise InvalidCiphertext("rows", "are not ascending", fix)
    if got is not None and got != chosen.size:
        problem = f"has {got:,} rows, for {chosen.size:,} rows of the sum"
        raise InvalidCiphertext("ciphertexts", problem, "pass one ciphertext per row")
    return chosen
