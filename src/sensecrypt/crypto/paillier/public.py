"""Paillier's cryptosystem in the form of Damgård, Jurik and Nielsen: the public side.

Enc(m; a) = (1 + m·n) · h_s^a mod n², with h = −x² mod n for a random x, h_s = h^n mod n², and a random exponent a.

The code represents c = x·(1 + u·n) mod n² as the pair (x, u) with x, u < n. A ciphertext is serialized as x then u,
little-endian, each as long as n. Every unit modulo n² has exactly one such pair. Three identities:

    x·(1 + u·n) · (1 + m·n)  = x·(1 + (u + m)·n)                   hiding a plaintext is one addition
    ∏ x_j·(1 + u_j·n)        = (∏ x_j mod n²) · (1 + n·Σ u_j)      products take half the multiplications
    r + q·n                  = r·(1 + (q·r⁻¹ mod n)·n)             back to a pair; a batch shares one inversion

h_s^a is a product of entries of a table with one row per byte of a: fixed-base exponentiation without squarings. The
table is public, built on first use and inherited by forked workers.

Timing: encryption is not constant-time. Table look-ups depend on the random exponent, and so, slightly, does the time
(a zero byte is a multiplication by 1). An attacker who times single encryptions to the microsecond or shares the
processor's caches is outside the model.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from sensecrypt import checks
from sensecrypt.crypto.base import PublicKeyBase, RunningSum, check_shape, profile_of, same_rows
from sensecrypt.crypto.encoding import check_ints, from_bytes, pack, to_bytes
from sensecrypt.crypto.paillier.fixedbase import (
    LIMB,
    LIMB_TYPE,
    Exponents,
    Pair,
    Table,
    from_limbs,
    pairs_of,
    power_table,
    table_products,
)
from sensecrypt.crypto.parallel import spread
from sensecrypt.crypto.scheme import Ciphertexts, PublicScheme, RowNumbers
from sensecrypt.errors import InvalidCiphertext, InvalidKey
from sensecrypt.profiles import Profile, get_profile

if TYPE_CHECKING:
    from sensecrypt.crypto.paillier.randomizers import RandomizerPool


_SMALL_PRIMES = gmpy2.primorial(199)
_FIX = "pass ciphertexts of this key"
_FORGED = "has a forged row, which is not invertible modulo n"


class PublicKey(PublicKeyBase):
    """Encrypts and adds; cannot decrypt."""

    __slots__ = ("_h", "_n", "_n2", "_table")

    def __init__(self, n: int, h: int, profile: str | Profile = "paillier-2048") -> None:
        """Check modulus n and base h of the randomizers; raise if they are visibly weak."""
        chosen = profile_of("paillier", profile)
        self._n, self._h = integer("n", n), integer("h", h)
        self._n2 = self._n * self._n
        bits = chosen.key_bits
        if self._n.bit_length() != bits:
            problem = f"has {self._n.bit_length():,} bits, but profile {chosen.name} has {bits:,}"
            raise InvalidKey("n", problem, "generate the key with this profile")
        if gmpy2.gcd(self._n, _SMALL_PRIMES) != 1 or gmpy2.is_prime(self._n) or gmpy2.is_square(self._n):
            raise InvalidKey("n", "is not a product of two different large primes", "generate a new key")
        # h = n − 1 has order 2 and would not hide plaintexts.
        if not 1 < self._h < self._n - 1 or gmpy2.gcd(self._h, self._n) != 1:
            raise InvalidKey("h", "does not hide plaintexts modulo n", "generate a new key")
        super().__init__(chosen, hashlib.sha256(f"{chosen.name}:{self._n:x}:{self._h:x}".encode()).digest())
        self._table: Table | None = None

    @classmethod
    def from_modulus(cls, n: int, profile: str | Profile = "paillier-2048") -> PublicKey:
        """Return a key with the modulus of another implementation; the base h is drawn here, as any sender may do."""
        if get_profile(profile).subgroup_bits:
            raise InvalidKey("profile", "has a base that only the key's owner can draw", "use its public key file")
        modulus = int(integer("n", n))
        if modulus < 2:
            raise InvalidKey("n", "is not a modulus", "pass the product of two primes")
        x = int.from_bytes(os.urandom(modulus.bit_length() // 8 + 16), "little") % modulus
        return cls(modulus, -x * x % modulus, profile)

    @property
    def n(self) -> int:
        """The modulus."""
        return int(self._n)

    @property
    def h(self) -> int:
        """The base of the randomizers."""
        return int(self._h)

    @property
    def half_bytes(self) -> int:
        """The length of n, half that of a ciphertext, in bytes."""
        return self._profile.key_bits // 8

    @property
    def modulus(self) -> mpz:
        """The modulus as an mpz."""
        return self._n

    @property
    def modulus_squared(self) -> mpz:
        """The modulus of ciphertexts, n²."""
        return self._n2

    @property
    def seconds_per_row(self) -> float:
        """The approximate seconds of one encryption or decryption, to decide about worker processes."""
        return 5e-4 * (self._profile.key_bits / 2048) ** 3

    @property
    def public(self) -> PublicKey:
        """This key, as for a secret key's `public`."""
        return self

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: RandomizerPool | None = None) -> Ciphertexts:
        """Return fresh ciphertexts of integers, `slots` values per row.

        Args:
            ints: integers within the signed range of a slot.
            workers: the largest number of processes; small jobs use one.
            pool: precomputed randomizers; missing ones are computed now.
        """
        return encrypt_rows(self, self, self.plaintexts(ints), workers=workers, pool=pool)

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Return ciphertexts of the row-wise sums."""
        left, right = self.parse("a", a), self.parse("b", b)
        same_rows(len(left), len(right))
        products = [x * y for (x, _), (y, _) in zip(left, right, strict=True)]
        totals = [u + v for (_, u), (_, v) in zip(left, right, strict=True)]
        return self.write(self.pairs("a or b", products, totals))

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Return ciphertexts of the sums with known numbers; not re-randomised, so `a` and the result reveal `ints`."""
        pairs, plaintexts = self.parse("a", a), self.plaintexts(ints)
        same_rows(len(pairs), len(plaintexts))
        return self.write(hide(self, pairs, plaintexts))

    def multiply(self, a: Ciphertexts, factor: int) -> Ciphertexts:
        """Return ciphertexts of the values times a known integer; the caller ensures that products fit their slots."""
        power = mpz(checks.whole("factor", factor, low=-(2**63), high=2**63 - 1))
        pairs = self.parse("a", a)
        self.check_coprime("a", pairs)
        powers = [gmpy2.powmod(x, power, self._n2) for x, _ in pairs]
        return self.write(self.pairs("a", powers, [u * power for _, u in pairs]))

    def rerandomise(self, a: Ciphertexts, *, workers: int = 1) -> Ciphertexts:
        """Return new ciphertexts of the same values that cannot be linked to `a`."""
        rows = len(self.parse("a", a))
        return self.add(a, encrypt_rows(self, self, [mpz(0)] * rows, workers=workers))

    def accumulator(self, rows: int) -> PaillierAccumulator:
        """Return an empty running sum of uploads of that many rows."""
        return PaillierAccumulator(self, rows)

    def to_integers(self, ciphertexts: Ciphertexts) -> list[int]:
        """Return ciphertexts as numbers modulo n², as other implementations use them."""
        return [int(x * (1 + u * self._n) % self._n2) for x, u in self.parse("ciphertexts", ciphertexts)]

    def from_integers(self, numbers: Sequence[int]) -> Ciphertexts:
        """Return the ciphertexts of numbers modulo n²: the inverse of `to_integers`."""
        whole = isinstance(numbers, (list, tuple)) and all(isinstance(number, (int, mpz)) for number in numbers)
        if not whole or not numbers or not all(0 < number < self._n2 for number in numbers):
            raise InvalidCiphertext("numbers", "are not integers between 0 and n²", _FIX)
        return self.write(self.pairs("numbers", [mpz(number) for number in numbers], [mpz(0)] * len(numbers)))

    # Only other modules of this package use the following methods.

    def plaintexts(self, ints: npt.ArrayLike) -> list[mpz]:
        """Return values, checked and packed."""
        width, slots = self._profile.slot_bits, self._profile.slots
        return pack(check_ints("ints", ints, width), slot_bits=width, slots=slots)

    def parse(self, argument: str, ciphertexts: Ciphertexts) -> list[Pair]:
        """Return the pair of every row; raise if a part is out of range."""
        first, second = self.halves(argument, ciphertexts)
        return list(zip(from_bytes(first), from_bytes(second), strict=True))

    def halves(self, argument: str, ciphertexts: Ciphertexts) -> tuple[Ciphertexts, Ciphertexts]:
        """Return the bytes of x and of u of every row; raise unless 0 < x < n and u < n."""
        rows, width = check_shape(argument, ciphertexts, self._profile.ciphertext_bytes), self.half_bytes
        first, second = rows[:, :width], rows[:, width:]
        invalid = ~first.any(axis=1) | self._too_large(first) | self._too_large(second)
        if invalid.any():
            row = int(invalid.argmax())
            raise InvalidCiphertext(argument, f"has no ciphertext of this key in row {row:,}", _FIX)
        return first, second

    def check_coprime(self, argument: str, pairs: Sequence[Pair]) -> None:
        """Raise if a ciphertext has a common factor with n; one gcd for all."""
        product = mpz(1)
        for x, _ in pairs:
            product = product * x % self._n
        if gmpy2.gcd(product, self._n) != 1:
            raise InvalidCiphertext(argument, _FORGED, _FIX)

    def write(self, pairs: Sequence[Pair]) -> Ciphertexts:
        """Return the rows of pairs: the inverse of `parse`."""
        return to_bytes((part for pair in pairs for part in pair), self.half_bytes).reshape(len(pairs), -1)

    def prepare(self) -> Table:
        """Build the table if necessary, and return it: 0.5 s and 17 MB at 2048 bits."""
        if self._table is None:
            base = gmpy2.powmod(self._h, self._n, self._n2)
            self._table = power_table(base, rows=self._profile.exponent_bits // 8, prime=self._n)
        return self._table

    def randomizers(self, exponents: Exponents) -> list[Pair]:
        """Return h_s^a for each exponent a, a row of little-endian bytes."""
        return pairs_of(*table_products(self.prepare(), exponents, self._n2), self._n)

    def pairs(self, argument: str, products: Sequence[mpz], totals: Sequence[mpz]) -> list[Pair]:
        """Return the pairs of the numbers product·(1 + total·n) modulo n²; raise if one is not invertible."""
        try:
            return pairs_of(products, totals, self._n)
        except ZeroDivisionError:
            raise InvalidCiphertext(argument, _FORGED, _FIX) from None

    def _too_large(self, numbers: Ciphertexts) -> npt.NDArray[np.bool_]:
        """Return which rows are ≥ n; for most rows, comparing the leading eight bytes is enough."""
        lead = min(8, self.half_bytes)
        leading = np.zeros((len(numbers), 8), dtype=np.uint8)
        leading[:, :lead] = numbers[:, -lead:]
        bound = int(self._n >> 8 * (self.half_bytes - lead))
        result: npt.NDArray[np.bool_] = leading.view("<u8")[:, 0] >= np.uint64(bound)
        for row in np.flatnonzero(result):
            result[row] = mpz.from_bytes(numbers[row].tobytes(), "little") >= self._n
        return result


class PaillierAccumulator(RunningSum[tuple[Ciphertexts, Ciphertexts]]):
    """The running product of uploads; its memory does not depend on the number of clients.

    `add` accepts a number that shares a factor with n, and then `result` fails; only the owner of the secret key can
    create such a number. `add` refuses all other invalid ciphertexts.
    """

    def __init__(self, public: PublicKey, rows: int) -> None:
        """Start with the trivial encryption of zero, 1."""
        super().__init__(rows, public.profile)
        self._public = public
        self._products = [mpz(1)] * rows
        self._totals = np.zeros((rows, public.half_bytes // LIMB), dtype=np.uint64)

    def _read(self, ciphertexts: Ciphertexts) -> tuple[Ciphertexts, Ciphertexts]:
        return self._public.halves("ciphertexts", ciphertexts)

    def _add(self, upload: tuple[Ciphertexts, Ciphertexts], rows: RowNumbers) -> None:
        first, second = upload
        square = self._public.modulus_squared
        for row, x in zip(rows.tolist(), from_bytes(first), strict=True):
            self._products[row] = self._products[row] * x % square
        self._totals[rows] += np.ascontiguousarray(second).view(LIMB_TYPE)

    def _sums(self, rows: RowNumbers) -> Ciphertexts:
        products = [self._products[row] for row in rows.tolist()]
        return self._public.write(self._public.pairs("an upload", products, from_limbs(self._totals[rows])))


class RandomizerMaker(Protocol):
    """A key that computes h_s^a: the public key or, faster, the secret key."""

    @property
    def public(self) -> PublicKey:
        """The public key that the randomizers are for."""

    def prepare(self) -> object:
        """Build the tables, so that forked workers inherit them."""

    def randomizers(self, exponents: Exponents) -> list[Pair]:
        """Return h_s^a for each exponent a, a row of little-endian bytes."""


def encrypt_rows(
    public: PublicKey,
    maker: RandomizerMaker,
    plaintexts: Sequence[mpz],
    *,
    workers: int = 1,
    pool: RandomizerPool | None = None,
) -> Ciphertexts:
    """Return ciphertexts of the plaintexts, with randomizers from the pool as far as it has them, else fresh ones."""
    checks.whole("workers", workers, low=1, high=1024)
    ready = pool.take(len(plaintexts), public) if pool else []
    rows = [public.write(hide(public, ready, plaintexts[: len(ready)]))] if ready else []
    rest = plaintexts[len(ready) :]
    if rest:
        rows.append(
            spread(
                lambda start, stop: public.write(
                    hide(public, fresh_randomizers(public, maker, stop - start), rest[start:stop])
                ),
                len(rest),
                workers=workers,
                seconds_per_row=public.seconds_per_row,
                prepare=maker.prepare,
            )
        )
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def integer(argument: str, value: object) -> mpz:
    """Return an integer of a key as an mpz."""
    if isinstance(value, bool) or not isinstance(value, (int, mpz)):
        raise InvalidKey(argument, f"is a {type(value).__name__}", "pass an integer")
    return mpz(value)


def fresh_randomizers(public: PublicKey, maker: RandomizerMaker, count: int) -> list[Pair]:
    """Return randomizers whose exponents come from the operating system's generator."""
    width = public.profile.exponent_bits // 8
    exponents = np.frombuffer(os.urandom(count * width), dtype=np.uint8).reshape(count, width)
    return maker.randomizers(exponents)


def hide(public: PublicKey, randomizers: Sequence[Pair], plaintexts: Sequence[mpz]) -> list[Pair]:
    """Return (1 + m·n) · randomizer for each plaintext m: the deterministic part, which test vectors check."""
    n = public.modulus
    return [(x, (u + m) % n) for (x, u), m in zip(randomizers, plaintexts, strict=True)]


def _fields(key: PublicKey) -> dict[str, str]:
    return {"n": f"{key.n:x}", "h": f"{key.h:x}"}


def _parse(fields: Mapping[str, Any], profile: Profile) -> PublicKey:
    return PublicKey(int(fields["n"], 16), int(fields["h"], 16), profile)


SCHEME = PublicScheme(PublicKey, _fields, _parse)
