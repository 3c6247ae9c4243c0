"""Encodes real numbers as fixed-point integers, and packs many integers into one plaintext.

Laws, each with a test:

1. decode(encode(x, p), p) differs from x by at most 2^−(f+1) / p plus the rounding of doubles: |x|·2^−51.
2. For up to `max_summands` weights p_i whose sum is at most `weight_sum`:
   Σ encode(x_i, p_i), an exact integer sum, fits its slot if every x_i was accepted.
3. unpack(pack(v)) = v, and unpack(pack(a) + pack(b)) = a + b if every sum fits its slot.
4. A value that does not fit is an error that names the tensor; no value wraps or is clipped.

A plaintext is Σ v_s · 2^(slot_bits·s) with signed v_s: a negative slot borrows from the next one. So adding plaintexts
adds slots, and no offset grows with the number of summands.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, ValueDoesNotFit

SLOT_BITS = (16, 32, 64)
MOST_FRACTION_BITS = 62


@dataclass(frozen=True)
class FixedPoint:
    """The format of numbers with `frac_bits` fractional bits in slots of `slot_bits`.

    Attributes:
        frac_bits: f; the resolution is 2^−f.
        slot_bits: 16, 32 or 64.
        weight_sum: the largest Σ|p| over all summands for which sums fit.
        max_summands: the largest number of summands; each adds a rounding error of half a step.
    """

    frac_bits: int
    slot_bits: int = 32
    weight_sum: float = 1.0
    max_summands: int = 1000

    def __post_init__(self) -> None:
        """Refuse a format in which no number fits."""
        if checks.whole("slot_bits", self.slot_bits, low=16, high=64) not in SLOT_BITS:
            raise InvalidInput("slot_bits", f"is {self.slot_bits}", "choose 16, 32 or 64")
        checks.whole("frac_bits", self.frac_bits, low=0, high=MOST_FRACTION_BITS)
        checks.whole("max_summands", self.max_summands, low=1, high=2**40)
        object.__setattr__(self, "weight_sum", checks.number("weight_sum", self.weight_sum, low=0.0, open_low=True))
        if self.largest <= 0:
            raise InvalidInput("max_summands", f"is {self.max_summands:,}", "pass fewer, or use wider slots")

    @property
    def largest(self) -> float:
        """The largest absolute value that every client may send, at any weight."""
        room = 2.0 ** (self.slot_bits - 1) * (1 - 2.0**-50) - 1 - self.max_summands / 2
        return float(room / 2.0**self.frac_bits / self.weight_sum)

    def encode(self, array: npt.ArrayLike, weight: float = 1.0, *, name: str = "array") -> npt.NDArray[np.int64]:
        """Return the nearest integers to p·x·2^f.

        Args:
            array: real numbers of any shape; they are flattened.
            weight: p, this client's share of the sum.
            name: the tensor's name, for the error message.
        """
        values = checks.finite_vector(name, array)
        share = checks.number("weight", weight, low=0.0, high=self.weight_sum, open_low=True)
        beyond = np.abs(values) > self.largest
        if beyond.any():
            index = int(beyond.argmax())
            problem = f"has {int(beyond.sum()):,} values that do not fit, the first at index {index:,}"
            fix = f"keep absolute values up to {self.largest:.6g}, or use fewer frac_bits or wider slots"
            raise ValueDoesNotFit(name, problem, fix)
        return np.rint(np.ldexp(values * share, self.frac_bits)).astype(np.int64)

    def decode(self, ints: npt.ArrayLike, total_weight: float = 1.0) -> npt.NDArray[np.float64]:
        """Return the numbers that a sum encodes: v / 2^f / Σp, with Σp over the summands that arrived."""
        vector = check_ints("ints", ints, 64)
        total = checks.number("total_weight", total_weight, low=2.0**-60)
        return np.ldexp(vector.astype(np.float64), -self.frac_bits) / total


def check_ints(argument: str, values: npt.ArrayLike, slot_bits: int) -> npt.NDArray[np.int64]:
    """Return `values` flattened to int64; raise if one does not fit a signed slot."""
    array = checks.numeric_array(argument, values, kinds="iufO" if _holds_ints(values) else "iu")
    if array.size == 0:
        raise InvalidInput(argument, "is empty", "pass at least one whole number")
    if array.dtype.kind not in "iu":  # NumPy converts integers beyond 64 bits to floats or objects
        array = np.array(values, dtype=object)
    low, high = -(2 ** (slot_bits - 1)), 2 ** (slot_bits - 1) - 1
    least, most = int(array.min()), int(array.max())
    if least < low or most > high:
        index = int(array.argmin() if least < low else array.argmax())
        problem = f"has a value at index {index:,} that does not fit its {slot_bits}-bit slot"
        raise ValueDoesNotFit(argument, problem, f"keep values within {low:,} … {high:,}")
    return array.astype(np.int64, copy=False).ravel()


def _holds_ints(values: object) -> bool:
    """Return whether a list contains only Python integers; some may be beyond 64 bits."""
    return isinstance(values, (list, tuple)) and all(type(value) is int for value in values)


def pack(ints: npt.NDArray[np.int64], *, slot_bits: int, slots: int) -> list[mpz]:
    """Return one signed plaintext per `slots` integers; the last one is filled with zeros."""
    rows = -(-ints.size // slots)
    filled = np.zeros(rows * slots, dtype=np.uint64)
    filled[: ints.size] = ints.view(np.uint64)
    filled += np.uint64(2 ** (slot_bits - 1))  # wraps: every slot is now an unsigned digit
    digits = filled.astype(f"<u{slot_bits // 8}").tobytes()
    width = slots * slot_bits // 8
    offset = _halves(slot_bits, slots)
    return [mpz.from_bytes(digits[i : i + width], "little") - offset for i in range(0, rows * width, width)]


def unpack(plaintexts: Sequence[mpz], count: int, *, slot_bits: int, slots: int) -> npt.NDArray[np.int64]:
    """Return the first `count` integers of signed plaintexts; raise OverflowError if one is not a packed number."""
    width = slots * slot_bits // 8
    offset = _halves(slot_bits, slots)
    digits = b"".join(_digits(plaintext + offset, width) for plaintext in plaintexts)
    unsigned = np.frombuffer(digits, dtype=f"<u{slot_bits // 8}").astype(np.uint64)
    unsigned -= np.uint64(2 ** (slot_bits - 1))
    ints = unsigned.view(np.int64)
    if ints[count:].any():
        raise OverflowError("unused slots are not zero")
    return ints[:count].copy()


def _digits(number: mpz, width: int) -> bytes:
    if number < 0 or number.bit_length() > 8 * width:
        raise OverflowError("not a packed number")
    return bytes(number.to_bytes(width, "little"))


@functools.cache
def _halves(slot_bits: int, slots: int) -> mpz:
    """Return 2^(slot_bits − 1) in every slot, the offset between signed slots and unsigned digits."""
    return mpz(sum(1 << (slot_bits * slot + slot_bits - 1) for slot in range(slots)))


def rows_of(count: int, slots: int) -> int:
    """Return the number of ciphertexts of `count` values."""
    return -(-count // slots)


def to_bytes(numbers: Iterable[mpz], width: int) -> npt.NDArray[np.uint8]:
    """Return non-negative numbers as rows of `width` little-endian bytes."""
    joined = bytearray(b"".join([number.to_bytes(width, "little") for number in numbers]))
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, width)


def from_bytes(rows: npt.NDArray[np.uint8]) -> list[mpz]:
    """Return the numbers of rows of little-endian bytes: the inverse of `to_bytes`."""
    width = rows.shape[1]
    joined = rows.tobytes()
    return [mpz.from_bytes(joined[i : i + width], "little") for i in range(0, len(joined), width)]
