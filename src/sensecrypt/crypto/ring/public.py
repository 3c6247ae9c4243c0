"""Exact additive encryption from ring learning with errors: the public side.

All polynomials are in Z[X]/(X^n + 1) modulo q = 2^51, with n = 2048. A secret key is k ternary polynomials s_j. The
public key is a, expanded from a seed, and b_j = e_j − a·s_j. A ciphertext holds k·n values of 32 bits, n per
polynomial m_j:

    c = (⌊a·u + f⌉, ⌊b_1·u + f_1⌉ + Δ·m_1, …, ⌊b_k·u + f_k⌉ + Δ·m_k),    Δ = q / 2^32 = 2^19

with a fresh ternary u and fresh small errors f. ⌊·⌉ rounds the first polynomial to multiples of 2 and the others to
multiples of 2^7, up or down at random with exact mean: a uniform number d below 2 or 2^7 is added, and the lowest bits,
which would only be noise, are dropped. Rounding uses nothing secret, so it does not reduce security.

Adding ciphertexts adds values modulo 2^32 and noise. The noise beside Δ·m_j is the sum of all
e_j·u + f_j + f·s_j + r_j + r·s_j, where r and r_j are the rounding errors. Δ divides q and 2^7 divides Δ, so encoding
is linear, and the noise does not depend on the values. Sharing a and u among k polynomials makes ciphertexts shorter:
Peikert, Vaikuntanathan, Waters 2008.

Noise. Given the key, one coefficient is a sum of bounded terms, each of mean 0 given the others, and so is
subgaussian with variance V = 2/3·‖e_j‖² + 10.5 + 2^12 + (10.5 + 1)·‖s_j‖². Key generation ensures V ≤ `NOISE_VARIANCE`
(`secret`). A sum of N ciphertexts is refused if a coefficient exceeds `NOISE_BOUND` = 15/32 Δ, which happens with
probability at most 2·exp(−`NOISE_BOUND`² / (2·N·V)). For N = 10,000 (`Profile.max_summands`) that is below 2^−116 for
one coefficient, and so below 2^−80 for a sum of 2^36 values. Below this bound, decryption is exact.

A row is `HEADER_BYTES` of the key's digest, then the k + 1 polynomials in the format of `packing`, without the dropped
bits. Every string of bits is a polynomial: a row is a ciphertext of this key if its length and header are right.
Polynomials at a row's end that hold no value are not sent (`Profile.row_bytes`): the receiver replaces them by zeros,
and `decrypt` ignores them. Changing the rest changes the values or the noise. Only decryption can detect it, and not if
the change is a multiple of Δ: as with every additive scheme, detecting it takes a MAC tag on the values.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.base import PublicKeyBase, RunningSum, check_shape, profile_of, same_rows
from sensecrypt.crypto.encoding import check_ints, rows_of
from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS, Small, Words, product, small_transform, split_transform
from sensecrypt.crypto.ring.packing import Bytes, Digits, digits, joined, pack, packed_bytes, unpack
from sensecrypt.crypto.ring.sampling import below_powers_of_2, errors, expand, ternary
from sensecrypt.crypto.scheme import Ciphertexts, PublicScheme, RowNumbers
from sensecrypt.errors import InvalidCiphertext, InvalidKey
from sensecrypt.profiles import RING_FIRST_BITS, RING_HEADER_BYTES, RING_VALUE_BITS, Profile

SHIFT = MODULUS_BITS - 32  # Δ = 2^19
FIRST_BITS, VALUE_BITS = RING_FIRST_BITS, RING_VALUE_BITS  # per serialized coefficient: first polynomial, values
NOISE_BOUND = 15 * 2**SHIFT // 32
NOISE_VARIANCE = 37_200.0
SEED_BYTES, HEADER_BYTES = 32, RING_HEADER_BYTES
COEFFICIENTS_AT_ONCE = 2**16  # large enough to amortise a call, small enough for the processor's caches


class RingPublicKey(PublicKeyBase):
    """Encrypts and adds; cannot decrypt."""

    __slots__ = ("_b", "_bits", "_places", "_seed", "_transforms")

    def __init__(self, seed: bytes, b: bytes, profile: str | Profile) -> None:
        """Parse the seed of a and the packed polynomials b_j."""
        chosen = profile_of("ring", profile)
        if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
            raise InvalidKey("seed", f"is not {SEED_BYTES} bytes", "use the key as it was generated")
        digest = hashlib.sha256(chosen.name.encode() + seed + bytes(b)).digest()
        super().__init__(chosen, digest)
        length = self.polynomials * packed_bytes(self.dimension, MODULUS_BITS)
        if not isinstance(b, bytes) or len(b) != length:
            raise InvalidKey("b", f"is not {length:,} bytes", "use the key as it was generated")
        polynomials = unpack(np.frombuffer(b, dtype=np.uint8).reshape(self.polynomials, -1), MODULUS_BITS)
        if not polynomials.any(axis=1).all():
            raise InvalidKey("b", "has a polynomial that hides nothing", "generate a new key")
        self._seed, self._b = seed, b
        self._transforms = split_transform(np.concatenate([self.a[None], polynomials]))
        self._bits = [FIRST_BITS] + [VALUE_BITS] * self.polynomials
        ends = itertools.accumulate([HEADER_BYTES, *(packed_bytes(self.dimension, bits) for bits in self._bits)])
        self._places = list(itertools.starmap(slice, itertools.pairwise(ends)))

    @property
    def dimension(self) -> int:
        """n, the number of coefficients of a polynomial."""
        return self._profile.key_bits

    @property
    def polynomials(self) -> int:
        """k, the number of polynomials of values in a ciphertext."""
        return self._profile.slots // self._profile.key_bits

    @property
    def seed(self) -> bytes:
        """The seed of a."""
        return self._seed

    @property
    def b(self) -> bytes:
        """The packed polynomials b_j."""
        return self._b

    @property
    def a(self) -> Words:
        """The polynomial a."""
        return expand(self._seed, self.dimension)

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Return fresh ciphertexts of 32-bit integers, `slots` values per row.

        Args:
            ints: integers within the signed range of 32 bits.
            workers: at least 1, without effect: a million values take 20 ms in one process.
        """
        checks.whole("workers", workers, low=1, high=1024)
        values = self._polynomials_of(ints)
        rows = self.empty(len(values))
        for part in self.steps(len(rows)):
            count = len(values[part])
            u, f = ternary((count, self.dimension)), errors((self.polynomials + 1, count, self.dimension))
            d = below_powers_of_2([MODULUS_BITS - bits for bits in self._bits], (count, self.dimension))
            self._encrypt_with(values[part], u, f, d, rows[part])
        return rows

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Return ciphertexts of the row-wise sums."""
        left, right = self.checked("a", a), self.checked("b", b)
        same_rows(len(left), len(right))
        sums = self.empty(len(left))
        for part in self.steps(len(left)):
            self.write(self.words(left[part]) + self.words(right[part]), sums[part])
        return sums

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Return ciphertexts of the sums with known numbers; not re-randomised, so `a` and the result reveal `ints`."""
        left, values = self.checked("a", a), self._polynomials_of(ints)
        same_rows(len(left), len(values))
        sums = self.empty(len(left))
        for part in self.steps(len(left)):
            words = self.words(left[part])
            words[:, 1:] += values[part] << SHIFT
            self.write(words, sums[part])
        return sums

    def accumulator(self, rows: int) -> RingAccumulator:
        """Return an empty running sum of uploads of that many rows."""
        return RingAccumulator(self, rows)

    # Only other modules of this package use the following methods.

    def checked(self, argument: str, ciphertexts: Ciphertexts) -> Ciphertexts:
        """Return the rows; raise if one does not have this key's length and header."""
        rows = np.ascontiguousarray(check_shape(argument, ciphertexts, self._profile.ciphertext_bytes))
        foreign = (rows[:, :HEADER_BYTES] != self._header()).any(axis=1)
        if foreign.any():
            problem = f"has no ciphertext of this key in row {int(foreign.argmax()):,}"
            raise InvalidCiphertext(argument, problem, "pass ciphertexts of this key")
        return rows

    def words(self, rows: Ciphertexts) -> Words:
        """Return the k + 1 polynomials of each checked row."""
        return self.joined(self.digits(rows))

    def digits(self, rows: Ciphertexts) -> list[Digits]:
        """Return the digits of checked rows: first those of the first polynomial, then those of the values."""
        values = rows[:, self._places[1].start :].reshape(len(rows) * self.polynomials, -1)
        return [
            *digits(rows[:, self._places[0]], FIRST_BITS),
            *(each.reshape(len(rows), -1) for each in digits(values, VALUE_BITS)),
        ]

    def joined(self, sums: Sequence[Digits]) -> Words:
        """Return the k + 1 polynomials of each row, from its digits or from sums of digits."""
        rows, first = len(sums[0]), len(digits(np.empty((0, FIRST_BITS), dtype=np.uint8), FIRST_BITS))
        words = np.empty((rows, self.polynomials + 1, self.dimension), dtype=np.int64)
        values = joined(sums[first:], VALUE_BITS).reshape(rows, -1, self.dimension)
        np.left_shift(joined(sums[:first], FIRST_BITS), MODULUS_BITS - FIRST_BITS, out=words[:, 0])
        np.left_shift(values, MODULUS_BITS - VALUE_BITS, out=words[:, 1:])
        return words

    def steps(self, rows: int) -> Iterator[slice]:
        """Yield slices of rows that are processed together."""
        size = max(1, COEFFICIENTS_AT_ONCE // (self.slots + self.dimension))
        return (slice(start, min(start + size, rows)) for start in range(0, rows, size))

    def _encrypt_with(self, values: Words, u: Small, f: Small, d: Bytes, out: Ciphertexts) -> None:
        """Write ciphertexts made with given randomness: errors f and rounding numbers d, per polynomial and row."""
        small = small_transform(u)
        for index in range(self.polynomials + 1):
            words = product(small, self._transforms[index])
            words += f[index]
            words += d[index]
            if index:
                words += values[:, index - 1] << SHIFT
            self._write(words, index, out)

    def write(self, words: Words, out: Ciphertexts) -> None:
        """Write sums to rows that already have headers."""
        for index in range(words.shape[1]):
            self._write(words[:, index], index, out)

    def _write(self, words: Words, index: int, out: Ciphertexts) -> None:
        """Write one polynomial of the rows, without its lowest bits."""
        bits = self._bits[index]
        pack(words >> (MODULUS_BITS - bits), out[:, self._places[index]], bits)

    def _header(self) -> Ciphertexts:
        return np.frombuffer(self._digest, dtype=np.uint8, count=HEADER_BYTES)

    def empty(self, rows: int) -> Ciphertexts:
        """Return new rows with headers."""
        made = np.empty((rows, self._profile.ciphertext_bytes), dtype=np.uint8)
        made[:, :HEADER_BYTES] = self._header()
        return made

    def _polynomials_of(self, ints: npt.ArrayLike) -> Words:
        values = check_ints("ints", ints, self._profile.slot_bits)
        rows = rows_of(values.size, self.slots)
        if values.size < rows * self.slots:
            values = np.concatenate([values, np.zeros(rows * self.slots - values.size, dtype=np.int64)])
        return values.reshape(rows, self.polynomials, self.dimension)


class RingAccumulator(RunningSum[Ciphertexts]):
    """The running sum of uploads, digit by digit; its memory does not depend on the number of clients."""

    def __init__(self, public: RingPublicKey, rows: int) -> None:
        """Start with no summands."""
        super().__init__(rows, public.profile)
        self._public = public
        none = public.digits(public.empty(1))
        self._digits = [np.zeros((rows, each.size), np.int64 if each.itemsize == 4 else np.uint32) for each in none]

    def _read(self, ciphertexts: Ciphertexts) -> Ciphertexts:
        return self._public.checked("ciphertexts", ciphertexts)

    def _add(self, upload: Ciphertexts, rows: RowNumbers) -> None:
        for part in self._public.steps(len(upload)):
            numbers = rows[part]
            contiguous = numbers[-1] - numbers[0] + 1 == len(numbers)  # then they are added in place
            where = slice(numbers[0], numbers[-1] + 1) if contiguous else numbers
            for total, each in zip(self._digits, self._public.digits(upload[part]), strict=True):
                total[where] += each

    def _sums(self, rows: RowNumbers) -> Ciphertexts:
        sums = self._public.empty(len(rows))
        for part in self._public.steps(len(rows)):
            self._public.write(self._public.joined([each[rows[part]] for each in self._digits]), sums[part])
        return sums


def _fields(key: RingPublicKey) -> dict[str, str]:
    return {"seed": key.seed.hex(), "b": key.b.hex()}


def _parse(fields: Mapping[str, Any], profile: Profile) -> RingPublicKey:
    return RingPublicKey(bytes.fromhex(fields["seed"]), bytes.fromhex(fields["b"]), profile)


SCHEME = PublicScheme(RingPublicKey, _fields, _parse)
