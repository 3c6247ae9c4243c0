"""Exact additive encryption from ring learning with errors: the public side.

Everything lives in Z[X]/(X^n + 1) modulo q = 2^51, with n = 2048. A secret key is k ternary polynomials s_j; the public
one is a, from a seed, and b_j = e_j − a·s_j. A ciphertext holds k·n values m_j of 32 bits, n to a polynomial:

    c = (a·u + f, b_1·u + f_1 + Δ·m_1, …, b_k·u + f_k + Δ·m_k),    Δ = q / 2^32 = 2^19

with a fresh ternary u and fresh small errors f. Adding ciphertexts adds values modulo 2^32 and noise: what decryption
sees beside Δ·m_j is Σ (e_j·u + f_j + f·s_j). As Δ divides q, encoding is linear, and that noise does not depend on the
values. Sharing a and u among k polynomials makes ciphertexts shorter: Peikert, Vaikuntanathan, Waters 2008.

Noise. Given the key, one coefficient of it is a sum of independent, bounded, symmetric draws: subgaussian with variance
V = 2/3·‖e_j‖² + 10.5 + 10.5·‖s_j‖², and keys are made so that V ≤ `NOISE_VARIANCE` (`secret`). A sum of N ciphertexts
is refused if a coefficient exceeds `NOISE_BOUND` = 7/16 Δ, which happens with probability at most
2·exp(−`NOISE_BOUND`² / (2·N·V)). For N = `MAX_SUMMANDS` = 10,000 that is below 2^−116 for one coefficient, and so below
2^−80 for a sum of 2^36 values. Up to there decryption is exact.

A row is `HEADER_BYTES` of the key's digest and then the k + 1 polynomials, as `packing` has them. Every string of 51
bits is a coefficient: a row is a ciphertext of this key if its length and its header say so. Whoever changes the rest
changes the values or the noise, and nobody notices before decryption, or, if the change is a multiple of Δ, ever: as
with every additive scheme, it takes a MAC tag on the values to notice.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.encoding import check_ints, rows_of
from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS, Small, Words, product, small_transform, split_transform
from sensecrypt.crypto.ring.packing import pack, packed_bytes, unpack
from sensecrypt.crypto.ring.sampling import errors, expand, ternary
from sensecrypt.crypto.scheme import Ciphertexts, PublicScheme, RowNumbers, check_rows, check_shape, same_rows
from sensecrypt.errors import InvalidCiphertext, InvalidInput, InvalidKey
from sensecrypt.profiles import Profile, get_profile

SHIFT = MODULUS_BITS - 32  # Δ = 2^19
NOISE_BOUND = 7 * 2**SHIFT // 16
NOISE_VARIANCE = 32_300.0
MAX_SUMMANDS = 10_000
SEED_BYTES, HEADER_BYTES = 32, 16
COEFFICIENTS_AT_ONCE = 2**16  # enough to spread the cost of a call, few enough for the processor's caches


class RingPublicKey:
    """Encrypts and adds; cannot decrypt."""

    __slots__ = ("_b", "_digest", "_profile", "_seed", "_transforms")

    def __init__(self, seed: bytes, b: bytes, profile: str | Profile) -> None:
        """A key from the seed of a and the packed polynomials b_j."""
        self._profile = get_profile(profile)
        if self._profile.scheme != "ring":
            raise InvalidKey("profile", f"is {self._profile.name}", "choose one of the ring profiles")
        if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
            raise InvalidKey("seed", f"is not {SEED_BYTES} bytes", "use the key as it was generated")
        length = self.polynomials * packed_bytes(self.dimension)
        if not isinstance(b, bytes) or len(b) != length:
            raise InvalidKey("b", f"is not {length:,} bytes", "use the key as it was generated")
        polynomials = unpack(np.frombuffer(b, dtype=np.uint8).reshape(self.polynomials, -1))
        if not polynomials.any(axis=1).all():
            raise InvalidKey("b", "has a polynomial that hides nothing", "generate a new key")
        self._seed, self._b = seed, b
        self._digest = hashlib.sha256(self._profile.name.encode() + seed + b).digest()
        self._transforms = split_transform(np.concatenate([self.a[None], polynomials]))

    @property
    def profile(self) -> Profile:
        """The parameter set."""
        return self._profile

    @property
    def slots(self) -> int:
        """Values a ciphertext."""
        return self._profile.slots

    @property
    def dimension(self) -> int:
        """n: coefficients of a polynomial."""
        return self._profile.key_bits

    @property
    def polynomials(self) -> int:
        """k: polynomials of values in a ciphertext."""
        return self._profile.slots // self._profile.key_bits

    @property
    def seed(self) -> bytes:
        """What a is made of."""
        return self._seed

    @property
    def b(self) -> bytes:
        """The packed polynomials b_j."""
        return self._b

    @property
    def a(self) -> Words:
        """The polynomial a."""
        return expand(self._seed, self.dimension)

    @property
    def fingerprint(self) -> str:
        """Short name of the key, for people and logs."""
        return self._digest.hex()[:16]

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Fresh ciphertexts of whole numbers of 32 bits, `slots` to a row.

        Args:
            ints: within the signed range of 32 bits.
            workers: at least 1; one is enough: a million values take 20 ms.
        """
        checks.whole("workers", workers, low=1, high=1024)
        values = self._polynomials_of(ints)
        rows = self._empty(len(values))
        for part in self.steps(len(rows)):
            count = len(values[part])
            u = ternary((count, self.dimension))
            self._encrypt_with(values[part], u, errors((self.polynomials + 1, count, self.dimension)), rows[part])
        return rows

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Ciphertexts of the sums, row by row."""
        left, right = self.checked("a", a), self.checked("b", b)
        same_rows(len(left), len(right))
        sums = self._empty(len(left))
        for part in self.steps(len(left)):
            self._write(self.words(left[part]) + self.words(right[part]), sums[part])
        return sums

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Ciphertexts of the sums with known numbers; not re-randomised, so whoever knows `a` learns `ints`."""
        left, values = self.checked("a", a), self._polynomials_of(ints)
        same_rows(len(left), len(values))
        sums = self._empty(len(left))
        for part in self.steps(len(left)):
            words = self.words(left[part])
            words[:, 1:] += values[part] << SHIFT
            self._write(words, sums[part])
        return sums

    def accumulator(self, rows: int) -> RingAccumulator:
        """An empty running sum of uploads of that many rows."""
        return RingAccumulator(self, checks.whole("rows", rows, low=1, high=2**28))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RingPublicKey):
            return NotImplemented
        return self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"RingPublicKey({self._profile.name}, {self.fingerprint})"

    # What follows is for this package's other modules.

    def checked(self, argument: str, ciphertexts: Ciphertexts) -> Ciphertexts:
        """Rows of this key: of its length and with its header."""
        rows = np.ascontiguousarray(check_shape(argument, ciphertexts, self._profile.ciphertext_bytes))
        foreign = (rows[:, :HEADER_BYTES] != self._header()).any(axis=1)
        if foreign.any():
            problem = f"has no ciphertext of this key in row {int(foreign.argmax()):,}"
            raise InvalidCiphertext(argument, problem, "pass ciphertexts of this key")
        return rows

    def words(self, rows: Ciphertexts) -> Words:
        """The k + 1 polynomials of each checked row."""
        size = packed_bytes(self.dimension)
        return unpack(rows[:, HEADER_BYTES:].reshape(-1, size)).reshape(len(rows), -1, self.dimension)

    def steps(self, rows: int) -> Iterator[slice]:
        """Rows to work on together."""
        size = max(1, COEFFICIENTS_AT_ONCE // (self.slots + self.dimension))
        return (slice(start, min(start + size, rows)) for start in range(0, rows, size))

    def _encrypt_with(self, values: Words, u: Small, f: Small, out: Ciphertexts) -> None:
        """Encryption with given randomness: f is the errors, of all rows for each polynomial."""
        small, size = small_transform(u), packed_bytes(self.dimension)
        for index in range(self.polynomials + 1):
            words = product(small, self._transforms[index])
            words += f[index]
            if index:
                words += values[:, index - 1] << SHIFT
            start = HEADER_BYTES + index * size
            pack(words, out[:, start : start + size])

    def _write(self, words: Words, out: Ciphertexts) -> None:
        """Sums as rows whose headers are there already."""
        size = packed_bytes(self.dimension)
        for index in range(words.shape[1]):
            start = HEADER_BYTES + index * size
            pack(words[:, index], out[:, start : start + size])

    def _header(self) -> Ciphertexts:
        return np.frombuffer(self._digest, dtype=np.uint8, count=HEADER_BYTES)

    def _empty(self, rows: int) -> Ciphertexts:
        """Rows with their headers."""
        made = np.empty((rows, self._profile.ciphertext_bytes), dtype=np.uint8)
        made[:, :HEADER_BYTES] = self._header()
        return made

    def _polynomials_of(self, ints: npt.ArrayLike) -> Words:
        values = check_ints("ints", ints, self._profile.slot_bits)
        rows = rows_of(values.size, self.slots)
        if values.size < rows * self.slots:
            values = np.concatenate([values, np.zeros(rows * self.slots - values.size, dtype=np.int64)])
        return values.reshape(rows, self.polynomials, self.dimension)


class RingAccumulator:
    """The running sum of uploads: 8 bytes a coefficient, whatever the number of clients."""

    def __init__(self, public: RingPublicKey, rows: int) -> None:
        """Empty until the first upload."""
        self._public = public
        self._sums = np.zeros((rows, public.polynomials + 1, public.dimension), dtype=np.int64)
        self._counts = np.zeros(rows, dtype=np.int64)
        self._lock = threading.Lock()

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        """Add ciphertexts to the given rows of the sum (None: to all); nothing is changed if one is invalid."""
        public = self._public
        upload = public.checked("ciphertexts", ciphertexts)
        chosen = check_rows(rows, len(self._sums), len(upload))
        with self._lock:
            if (self._counts[chosen] >= MAX_SUMMANDS).any():
                problem = f"would be summand {MAX_SUMMANDS + 1:,} of a row; sums are exact up to {MAX_SUMMANDS:,}"
                raise InvalidInput("ciphertexts", problem, "decrypt the sum and start another one")
            for part in public.steps(len(upload)):
                words, numbers = public.words(upload[part]), chosen[part]
                if numbers[-1] - numbers[0] + 1 == len(numbers):
                    self._sums[numbers[0] : numbers[-1] + 1] += words
                else:
                    self._sums[numbers] += words
            self._counts[chosen] += 1

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        """The sum so far, of the given rows (None: of all)."""
        public, chosen = self._public, check_rows(rows, len(self._sums))
        with self._lock:
            if not chosen.size or not self._counts[chosen].all():
                raise InvalidInput("accumulator", "has rows to which nothing was added", "add at least one upload")
            sums = public._empty(len(chosen))
            for part in public.steps(len(chosen)):
                public._write(self._sums[chosen[part]], sums[part])
        return sums


def _fields(key: RingPublicKey) -> dict[str, str]:
    return {"seed": key.seed.hex(), "b": key.b.hex()}


def _parse(fields: Mapping[str, Any], profile: Profile) -> RingPublicKey:
    return RingPublicKey(bytes.fromhex(fields["seed"]), bytes.fromhex(fields["b"]), profile)


SCHEME = PublicScheme(RingPublicKey, _fields, _parse)
