"""Runs that charge for encryption instead of encrypting: for experiments that would take days.

Sums are exact whatever is encrypted, so a calibrated run has the models, masks and message sizes of the real one; its
time is the number of ciphertexts times what one costs on this machine. It protects nothing and says so:
`NullCipher` is no profile, has no key file, and only the local engine plays with it, when a configuration says
`calibrated`.
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
    """In the place of a key pair: values travel in rows as long as ciphertexts, readable by everybody."""

    def __init__(self, profile: Profile) -> None:
        """Rows and slots as in `profile`."""
        self._profile = profile
        self._type = np.dtype(f"<i{profile.slot_bits // 8}")

    @property
    def profile(self) -> Profile:
        """Whose sizes it has."""
        return self._profile

    @property
    def slots(self) -> int:
        """Values a row."""
        return self._profile.slots

    @property
    def public(self) -> NullCipher:
        """There is only one half."""
        return self

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:  # noqa: ARG002 (nothing to share out)
        """Rows that hold the values as they are."""
        values = check_ints("ints", ints, self._profile.slot_bits)
        matrix = np.zeros((-(-values.size // self.slots), self.slots), dtype=np.int64)
        matrix.reshape(-1)[: values.size] = values
        return self.write(matrix)

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """The sums."""
        return self.write(self.read(a) + self.read(b))

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """The sums."""
        return self.add(a, self.encrypt(ints))

    def multiply(self, a: Ciphertexts, factor: int) -> Ciphertexts:
        """The products, in profiles whose ciphertexts can be multiplied."""
        number = checks.whole("factor", factor, low=-(2**63), high=2**63 - 1)
        values = self.read(a)
        largest = max(int(values.max()), -int(values.min()))
        if largest * abs(number) > 2 ** (self._profile.slot_bits - 1) - 1:
            raise InvalidCiphertext("a", "has a product that leaves its slot", "multiply smaller values")
        return self.write(values * number)

    def accumulator(self, rows: int) -> NullAccumulator:
        """An empty sum."""
        return NullAccumulator(self, rows)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:  # noqa: ARG002 (as above)
        """The values, which were in sight all the time."""
        return self.read(ciphertexts).reshape(-1)[:count]

    def read(self, rows: Ciphertexts) -> Ints:
        """The values of each row."""
        checked = check_shape("rows", rows, self._profile.ciphertext_bytes)
        used = np.ascontiguousarray(checked[:, : self.slots * self._type.itemsize])
        return used.view(self._type).astype(np.int64)

    def write(self, values: Ints) -> Ciphertexts:
        """The inverse of `read`."""
        rows = np.zeros((len(values), self._profile.ciphertext_bytes), dtype=np.uint8)
        rows[:, : self.slots * self._type.itemsize] = values.astype(self._type).view(np.uint8).reshape(len(values), -1)
        return rows


class NullAccumulator:
    """A running sum of readable rows."""

    def __init__(self, key: NullCipher, rows: int) -> None:
        """All zeros."""
        self._key, self._sums = key, np.zeros((rows, key.slots), dtype=np.int64)

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add to the given rows."""
        self._sums[check_rows(rows, len(self._sums), len(ciphertexts))] += self._key.read(ciphertexts)

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """The sums of the given rows."""
        return self._key.write(self._sums[check_rows(rows, len(self._sums))])
