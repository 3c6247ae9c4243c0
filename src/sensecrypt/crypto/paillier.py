"""Paillier's cryptosystem in the form of Damgård, Jurik and Nielsen: the public side.

Enc(m; a) = (1 + m·n) · h_s^a mod n², with h = −x² mod n for a random x, h_s = h^n mod n², and a random exponent a.

Everything below works on *base-n digits*: c = c₀ + c₁·n with c₀, c₁ < n, which is also how a ciphertext is written:
c₀ then c₁, little-endian, each as long as n. Three identities make this fast:

    (c₀ + c₁·n) · (1 + m·n)      = c₀ + (c₁ + c₀·m mod n)·n            encrypt under a given obfuscator; add a plaintext
    (c₀ + c₁·n) · (d₀ + d₁·n)    = r + (q + c₀·d₁ + c₁·d₀ mod n)·n     add ciphertexts; c₀·d₀ = q·n + r
    ∏ x_j·(1 + u_j·n)            = (∏ x_j mod n²) · (1 + n·Σ u_j)      a product of table entries: half the work

h_s^a is a product of entries of a table with one row for each byte of a (fixed-base exponentiation, no squarings),
kept in the form of the last identity. The table is public, built on first use and inherited by forked workers.

Timing: table look-ups and multiplications depend on the random exponent only through memory access patterns; an
attacker who shares the processor's caches is outside the model.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from sensecrypt import checks
from sensecrypt.crypto.encoding import check_ints, from_bytes, pack, to_bytes
from sensecrypt.crypto.parallel import spread
from sensecrypt.crypto.scheme import Ciphertexts, check_shape, same_rows
from sensecrypt.errors import InvalidCiphertext, InvalidKey
from sensecrypt.profiles import DEFAULT_PROFILE, Profile, get_profile

if TYPE_CHECKING:
    from sensecrypt.crypto.obfuscators import ObfuscatorPool

Exponents = npt.NDArray[np.uint8]  # one row an exponent, little-endian
Digits = tuple[mpz, mpz]  # (c₀, c₁) of c₀ + c₁·n
Table = list[list[tuple[mpz, mpz]]]  # (x, u) of x·(1 + u·n)


class PublicKey:
    """Encrypts and adds; cannot decrypt."""

    __slots__ = ("__dict__", "_h", "_n", "_n2", "_profile")

    def __init__(self, n: int, h: int, profile: str | Profile = DEFAULT_PROFILE) -> None:
        """A key from its modulus and the base of its obfuscators, both checked as far as the public can."""
        self._profile = get_profile(profile)
        if self._profile.scheme != "paillier":
            raise InvalidKey("profile", f"is {self._profile.name}", "choose one of the paillier profiles")
        self._n, self._h = mpz(n), mpz(h)
        self._n2 = self._n * self._n
        bits = self._profile.key_bits
        if self._n.bit_length() != bits:
            problem = f"has {self._n.bit_length():,} bits, profile {self._profile.name} has {bits:,}"
            raise InvalidKey("n", problem, "generate the key with this profile")
        if self._n.is_even() or gmpy2.is_prime(self._n) or gmpy2.is_square(self._n):
            raise InvalidKey("n", "is not a product of two different odd primes", "generate a new key")
        if not 1 < self._h < self._n or gmpy2.gcd(self._h, self._n) != 1:
            raise InvalidKey("h", "is not invertible modulo n", "generate a new key")

    @classmethod
    def from_modulus(cls, n: int, profile: str | Profile = DEFAULT_PROFILE) -> PublicKey:
        """A key whose modulus another implementation made; the base h is drawn here, as any sender may."""
        x = int.from_bytes(os.urandom(int(n).bit_length() // 8 + 16), "little") % n
        return cls(n, -x * x % n, profile)

    @property
    def n(self) -> int:
        """The modulus."""
        return int(self._n)

    @property
    def h(self) -> int:
        """The base of the obfuscators."""
        return int(self._h)

    @property
    def profile(self) -> Profile:
        """The parameter set."""
        return self._profile

    @property
    def slots(self) -> int:
        """Values a ciphertext."""
        return self._profile.slots

    @property
    def digit_bytes(self) -> int:
        """Length of n: half a ciphertext."""
        return self._profile.key_bits // 8

    @property
    def modulus(self) -> mpz:
        """The modulus, as the number type of this package."""
        return self._n

    @property
    def seconds_per_row(self) -> float:
        """A rough cost of one encryption or decryption, for deciding about worker processes."""
        return 5e-4 * (self._profile.key_bits / 2048) ** 3

    @functools.cached_property
    def fingerprint(self) -> str:
        """Short name of the key, for people and logs."""
        text = f"{self._profile.name}:{self._n:x}:{self._h:x}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: ObfuscatorPool | None = None) -> Ciphertexts:
        """Fresh ciphertexts of whole numbers, `slots` to a row.

        Args:
            ints: within the signed range of a slot.
            workers: processes, used when the work is worth it.
            pool: obfuscators made ahead; what it lacks is made now.
        """
        return encrypt_rows(self, self, self.plaintexts(ints), workers=workers, pool=pool)

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Ciphertexts of the sums, row by row."""
        left, right = self.parse("a", a), self.parse("b", b)
        same_rows(len(left), len(right))
        sums = [self._multiply(c, d) for c, d in zip(left, right, strict=True)]
        self.check_coprime("a or b", sums)
        return self.write(sums)

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Ciphertexts of the sums with known numbers; not re-randomised, so whoever knows `a` learns `ints`."""
        digits, plaintexts = self.parse("a", a), self.plaintexts(ints)
        same_rows(len(digits), len(plaintexts))
        return self.write(hide(self, digits, plaintexts))

    def multiply(self, a: Ciphertexts, scalar: int) -> Ciphertexts:
        """Ciphertexts of the values times a known whole number; the caller keeps the products within their slots."""
        factor = mpz(checks.whole("scalar", scalar, low=-(2**63), high=2**63 - 1))
        digits = self.parse("a", a)
        self.check_coprime("a", digits)
        powers = (gmpy2.powmod(c0 + c1 * self._n, factor, self._n2) for c0, c1 in digits)
        return self.write([self._split(power) for power in powers])

    def rerandomise(self, a: Ciphertexts, *, workers: int = 1) -> Ciphertexts:
        """The same values in ciphertexts that cannot be linked to `a`."""
        digits = self.parse("a", a)
        zeros = self.parse("a", encrypt_rows(self, self, [mpz(0)] * len(digits), workers=workers))
        return self.write([self._multiply(c, d) for c, d in zip(digits, zeros, strict=True)])

    def accumulator(self, rows: int) -> PaillierAccumulator:
        """An empty running sum of uploads of that many rows."""
        return PaillierAccumulator(self, checks.whole("rows", rows, low=1))

    def to_integers(self, ciphertexts: Ciphertexts) -> list[int]:
        """Ciphertexts as the numbers modulo n² that other implementations use."""
        return [int(c0 + c1 * self._n) for c0, c1 in self.parse("ciphertexts", ciphertexts)]

    def from_integers(self, numbers: Sequence[int]) -> Ciphertexts:
        """The inverse of `to_integers`."""
        if not numbers or not all(0 < number < self._n2 for number in numbers):
            raise InvalidCiphertext(
                "numbers", "is empty or has one that is not between 0 and n²", "pass ciphertexts of this key"
            )
        digits = [self._split(mpz(number)) for number in numbers]
        self.check_coprime("numbers", digits)
        return self.write(digits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PublicKey):
            return NotImplemented
        return (self._n, self._h, self._profile) == (other._n, other._h, other._profile)

    def __hash__(self) -> int:
        return hash((self._n, self._h, self._profile))

    def __repr__(self) -> str:
        return f"PublicKey({self._profile.name}, {self.fingerprint})"

    # What follows is for this package's other modules.

    def plaintexts(self, ints: npt.ArrayLike) -> list[mpz]:
        """Checked and packed values."""
        width, slots = self._profile.slot_bits, self._profile.slots
        return pack(check_ints("ints", ints, width), slot_bits=width, slots=slots)

    def parse(self, argument: str, ciphertexts: Ciphertexts) -> list[Digits]:
        """The digits of every row, each in range."""
        rows, width = check_shape(argument, ciphertexts, self._profile.ciphertext_bytes), self.digit_bytes
        digits = list(zip(from_bytes(rows[:, :width]), from_bytes(rows[:, width:]), strict=True))
        n = self._n
        for row, (c0, c1) in enumerate(digits):
            if not 0 < c0 < n or c1 >= n:
                raise InvalidCiphertext(
                    argument, f"has no number of this key in row {row:,}", "pass this key's ciphertexts"
                )
        return digits

    def check_coprime(self, argument: str, digits: Sequence[Digits]) -> None:
        """Raise if a ciphertext has a factor in common with n: one product, one gcd."""
        product = mpz(1)
        for c0, _ in digits:
            product = product * c0 % self._n
        if gmpy2.gcd(product, self._n) != 1:
            raise InvalidCiphertext(argument, "has a row that is not invertible modulo n", "discard it: it was forged")

    def write(self, digits: Sequence[Digits]) -> Ciphertexts:
        """The inverse of `parse`."""
        return to_bytes((digit for pair in digits for digit in pair), self.digit_bytes).reshape(len(digits), -1)

    def prepare(self) -> None:
        """Build the table now: 0.4 s and 17 MB at 2048 bits."""
        _ = self._table

    def obfuscators(self, exponents: Exponents) -> list[Digits]:
        """h_s^a for each exponent a, given as a row of little-endian bytes."""
        table, n, n2 = self._table, self._n, self._n2
        result = []
        for exponent in exponents.tolist():
            product, total = table_product(table, exponent, n2)
            c1, c0 = divmod(product, n)
            result.append((c0, (c1 + c0 * total) % n))
        return result

    @functools.cached_property
    def _table(self) -> Table:
        base = gmpy2.powmod(self._h, self._n, self._n2)
        return power_table(base, rows=self._profile.exponent_bits // 8, prime=self._n)

    def _split(self, c: mpz) -> Digits:
        c1, c0 = divmod(c, self._n)
        return c0, c1

    def _multiply(self, c: Digits, d: Digits) -> Digits:
        quotient, rest = divmod(c[0] * d[0], self._n)
        return rest, (quotient + c[0] * d[1] + c[1] * d[0]) % self._n


class PaillierAccumulator:
    """The running product of uploads: one model's worth of memory, whatever the number of clients."""

    def __init__(self, public: PublicKey, rows: int) -> None:
        """Start from an encryption of zero with no randomness, which the first upload brings."""
        self._public = public
        self._sum: list[Digits] = [(mpz(1), mpz(0))] * rows

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add one upload; nothing is changed if any of its rows is invalid."""
        upload = self._public.parse("ciphertexts", ciphertexts)
        same_rows(len(self._sum), len(upload))
        n, total = self._public.modulus, self._sum
        for row, (d0, d1) in enumerate(upload):
            c0, c1 = total[row]
            quotient, rest = divmod(c0 * d0, n)
            total[row] = rest, (quotient + c0 * d1 + c1 * d0) % n

    def result(self) -> Ciphertexts:
        """The sum so far."""
        self._public.check_coprime("an upload", self._sum)
        return self._public.write(self._sum)


class ObfuscatorMaker(Protocol):
    """Whoever can compute h_s^a: the public key, or faster the secret key."""

    def prepare(self) -> None:
        """Build the tables, so that forked workers inherit them."""

    def obfuscators(self, exponents: Exponents) -> list[Digits]:
        """h_s^a for each exponent a, given as a row of little-endian bytes."""


def encrypt_rows(
    public: PublicKey,
    maker: ObfuscatorMaker,
    plaintexts: Sequence[mpz],
    *,
    workers: int = 1,
    pool: ObfuscatorPool | None = None,
) -> Ciphertexts:
    """Hide each plaintext behind an obfuscator: from the pool as long as it lasts, the rest fresh."""
    ready = pool.take(len(plaintexts), public) if pool else []
    rows = [public.write(hide(public, ready, plaintexts[: len(ready)]))] if ready else []
    rest = plaintexts[len(ready) :]
    if rest:
        rows.append(
            spread(
                lambda start, stop: public.write(
                    hide(public, fresh_obfuscators(public, maker, stop - start), rest[start:stop])
                ),
                len(rest),
                workers=workers,
                seconds_per_row=public.seconds_per_row,
                prepare=maker.prepare,
            )
        )
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def fresh_obfuscators(public: PublicKey, maker: ObfuscatorMaker, count: int) -> list[Digits]:
    """Obfuscators with exponents from the operating system."""
    width = public.profile.exponent_bits // 8
    exponents = np.frombuffer(os.urandom(count * width), dtype=np.uint8).reshape(count, width)
    return maker.obfuscators(exponents)


def hide(public: PublicKey, obfuscators: Sequence[Digits], plaintexts: Sequence[mpz]) -> list[Digits]:
    """(1 + m·n) · obfuscator, for each pair: deterministic, the part that test vectors check."""
    n = public.modulus
    return [(c0, (c1 + c0 * m) % n) for (c0, c1), m in zip(obfuscators, plaintexts, strict=True)]


def power_table(base: mpz, *, rows: int, prime: mpz) -> Table:
    """Row j holds base^(d·256^j) mod prime² for d = 0 … 255, each as (x, u) with x·(1 + u·prime).

    `prime` is n itself on the public side, p or q on the secret side.
    """
    square = prime * prime
    table = []
    for _ in range(rows):
        powers = [mpz(1)]
        for _ in range(255):
            powers.append(powers[-1] * base % square)
        base = powers[-1] * base % square
        digits = [divmod(power, prime) for power in powers]
        inverses = _inverses([low for _, low in digits], prime)
        table.append([(low, high * inv % prime) for (high, low), inv in zip(digits, inverses, strict=True)])
    return table


def table_product(table: Table, exponent: Sequence[int], square: mpz) -> tuple[mpz, mpz]:
    """(X, U) with base^exponent = X·(1 + U·prime) modulo prime²: the inner loop of encryption."""
    product, total = mpz(1), mpz(0)
    for row, byte in zip(table, exponent, strict=True):
        x, u = row[byte]
        product = product * x % square
        total += u
    return product, total


def _inverses(numbers: Sequence[mpz], modulus: mpz) -> list[mpz]:
    """All inverses by one inversion and three multiplications each (Montgomery's trick)."""
    prefix = [mpz(1)]
    for number in numbers:
        prefix.append(prefix[-1] * number % modulus)
    inverse = gmpy2.invert(prefix[-1], modulus)
    result = []
    for number, before in zip(reversed(numbers), reversed(prefix[:-1]), strict=True):
        result.append(inverse * before % modulus)
        inverse = inverse * number % modulus
    return result[::-1]
