"""What keys and running sums of all schemes have in common; and the checks of their arguments."""

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
    """The identity of a public key: its profile and a digest of all that makes it."""

    __slots__ = ("_digest", "_profile")

    def __init__(self, profile: Profile, digest: bytes) -> None:
        """A key of a profile."""
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
        """Short name of the key, for people and logs."""
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
    """Refuses to be pickled or copied, and does not show itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>, {self.public!r})"  # type: ignore[attr-defined]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied; write it with sensecrypt.crypto.keyfile")

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} does not show its state")


class RunningSum(ABC, Generic[Upload]):
    """A running sum of uploads, whatever the scheme: counts the summands of each row."""

    def __init__(self, rows: int, profile: Profile) -> None:
        """Empty until the first upload."""
        self._counts = np.zeros(checks.whole("rows", rows, low=1, high=2**28), dtype=np.int64)
        self._most = profile.max_summands
        self._lock = threading.Lock()

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add ciphertexts to the given rows of the sum (None: to all); nothing is changed if one is invalid."""
        upload = self._read(ciphertexts)
        chosen = check_rows(rows, self._counts.size, len(ciphertexts))
        with self._lock:
            if self._most is not None and (self._counts[chosen] >= self._most).any():
                problem = f"would be summand {self._most + 1:,} of a row; sums are exact up to {self._most:,}"
                raise InvalidInput("ciphertexts", problem, "decrypt the sum and start another one")
            self._add(upload, chosen)
            self._counts[chosen] += 1

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """The sum so far, of the given rows (None: of all)."""
        chosen = check_rows(rows, self._counts.size)
        with self._lock:
            if not chosen.size or not self._counts[chosen].all():
                raise InvalidInput("accumulator", "has rows to which nothing was added", "add at least one upload")
            return self._sums(chosen)

    @abstractmethod
    def _read(self, ciphertexts: Ciphertexts) -> Upload:
        """Valid ciphertexts as the scheme adds them."""

    @abstractmethod
    def _add(self, upload: Upload, rows: RowNumbers) -> None:
        """Add an upload to these rows, or raise and change nothing."""

    @abstractmethod
    def _sums(self, rows: RowNumbers) -> Ciphertexts:
        """The sums of these rows, each of at least one upload."""


def profile_of(scheme: str, profile: str | Profile) -> Profile:
    """The profile of that name, which must be one of the scheme."""
    chosen = get_profile(profile)
    if chosen.scheme != scheme:
        raise InvalidKey("profile", f"is {chosen.name}", f"choose one of the {scheme} profiles")
    return chosen


def check_count(count: Any, rows: int, slots: int) -> int:
    """A number of values that takes exactly so many rows."""
    if rows_of(checks.whole("count", count, low=1, high=2**40), slots) != rows:
        problem = f"is {count:,}, but {rows:,} rows hold {slots * (rows - 1) + 1:,} to {slots * rows:,} values"
        raise InvalidInput("count", problem, "pass the number that was encrypted")
    return int(count)


def check_shape(argument: str, ciphertexts: object, width: int) -> Ciphertexts:
    """A matrix of bytes with at least one row of exactly `width`."""
    if not isinstance(ciphertexts, np.ndarray) or ciphertexts.dtype != np.uint8 or ciphertexts.ndim != 2:
        raise InvalidCiphertext(
            argument, "is not a matrix of bytes", "pass what encrypt returned, one row a ciphertext"
        )
    if len(ciphertexts) == 0 or ciphertexts.shape[1] != width:
        problem = f"has shape {ciphertexts.shape}"
        raise InvalidCiphertext(
            argument, problem, f"pass rows of exactly {width:,} bytes: truncated or of another key?"
        )
    return ciphertexts


def same_rows(expected: int, got: int) -> None:
    """Raise unless both operands have equally many rows."""
    if got != expected:
        raise InvalidCiphertext("b", f"has {got:,} rows, a has {expected:,}", "add ciphertexts of equally many values")


def check_rows(rows: RowNumbers | None, total: int, got: int | None = None) -> RowNumbers:
    """Row numbers of a running sum, ascending, and as many as there are ciphertexts."""
    if rows is None:
        chosen = np.arange(total)
    else:
        fix = f"number rows 0 … {total - 1:,}"
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
