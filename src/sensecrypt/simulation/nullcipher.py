"""The null cipher of calibrated runs, which would take days with real encryption.

Sums are exact with any cipher, so a calibrated run has the models, masks and message sizes of the real run. Its time is
the number of ciphertexts multiplied by the cost of one on this machine. The null cipher protects nothing: it has no
profile and no key file, and only the local transport uses it, if the configuration says `calibrated`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.base import check_rows, check_shape
from sensecrypt.crypto.encoding import check_ints
from sensecrypt.crypto.scheme import Ciphertexts, Ints, RowNumbers
from sensecrypt.errors import InvalidCiphertext
from sensecrypt.profiles import Profile


class NullCipher:
    """Replaces a key pair: "ciphertexts" are rows of the real length that hold the values in the clear."""

    def __init__(self, profile: Profile) -> None:
        """Imitate the sizes of `profile`."""
        self._profile = profile
        self._type = np.dtype(f"<i{profile.slot_bits // 8}")

    @property
    def profile(self) -> Profile:
        """The profile whose sizes are imitated."""
        return self._profile

    @property
    def slots(self) -> int:
        """Values per row."""
        return self._profile.slots

    @property
    def public(self) -> NullCipher:
        """This object: there is no separate secret key."""
        return self

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:  # noqa: ARG002 (one core is enough)
        """Return rows that hold the values in the clear."""
        values = check_ints("ints", ints, self._profile.slot_bits)
        matrix = np.zeros((-(-values.size // self.slots), self.slots), dtype=np.int64)
        matrix.reshape(-1)[: values.size] = values
        return self.write(matrix)

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Return the row-wise sums."""
        return self.write(self.read(a) + self.read(b))

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Return the sums of rows and known numbers."""
        return self.add(a, self.encrypt(ints))

    def multiply(self, a: Ciphertexts, factor: int) -> Ciphertexts:
        """Return the products with `factor`, for profiles that support multiplication."""
        number = checks.whole("factor", factor, low=-(2**63), high=2**63 - 1)
        values = self.read(a)
        largest = max(int(values.max()), -int(values.min()))
        if largest * abs(number) > 2 ** (self._profile.slot_bits - 1) - 1:
            raise InvalidCiphertext("a", "has a product that overflows its slot", "multiply smaller values")
        return self.write(values * number)

    def accumulator(self, rows: int) -> NullAccumulator:
        """Return a running sum of `rows` rows, all zero."""
        return NullAccumulator(self, rows)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:  # noqa: ARG002 (as above)
        """Return the first `count` values."""
        return self.read(ciphertexts).reshape(-1)[:count]

    def read(self, rows: Ciphertexts) -> Ints:
        """Return the values of each row."""
        checked = check_shape("rows", rows, self._profile.ciphertext_bytes)
        used = np.ascontiguousarray(checked[:, : self.slots * self._type.itemsize])
        return used.view(self._type).astype(np.int64)

    def write(self, values: Ints) -> Ciphertexts:
        """Return rows that hold the values: the inverse of `read`."""
        rows = np.zeros((len(values), self._profile.ciphertext_bytes), dtype=np.uint8)
        rows[:, : self.slots * self._type.itemsize] = values.astype(self._type).view(np.uint8).reshape(len(values), -1)
        return rows


class NullAccumulator:
    """A running sum of rows in the clear."""

    def __init__(self, key: NullCipher, rows: int) -> None:
        """Start at zero."""
        self._key, self._sums = key, np.zeros((rows, key.slots), dtype=np.int64)

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add `ciphertexts` to the given rows of the sum; None: to all rows."""
        self._sums[check_rows(rows, len(self._sums), len(ciphertexts))] += self._key.read(ciphertexts)

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """Return the given rows of the sum; None: all rows."""
        return self._key.write(self._sums[check_rows(rows, len(self._sums))])
