"""The secret side of Paillier: key generation, decryption, and encryption at twice the speed.

Nothing that aggregates may import this module; `make check` enforces it.

As c^(p−1) ≡ 1 + m·(p−1)·n (mod p²) and n = p·q, m mod p = −(c^(p−1) mod p² − 1)/p · q⁻¹ mod p. The same holds for q,
and the two halves are put together by the Chinese remainder theorem.

Side channels: every ciphertext is blinded by a random factor before the exponentiation, so that its timing does not
follow the ciphertext. `constant_time=True` makes the exponentiation itself free of secret-dependent memory accesses.
The divisions around it, encryption and key generation are ordinary arithmetic: an attacker on the same processor is
not fully shut out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import NoReturn, SupportsIndex

import gmpy2
import numpy.typing as npt
from gmpy2 import mpz

from sensecrypt import checks
from sensecrypt.crypto.encoding import from_bytes, rows_of, to_bytes, unpack
from sensecrypt.crypto.fixedbase import Exponents, Pair, Table, pairs_of, power_table, table_products
from sensecrypt.crypto.obfuscators import ObfuscatorPool
from sensecrypt.crypto.paillier import PublicKey, encrypt_rows, integer
from sensecrypt.crypto.parallel import spread
from sensecrypt.crypto.scheme import Ciphertexts, Ints
from sensecrypt.errors import InvalidCiphertext, InvalidInput, InvalidKey
from sensecrypt.profiles import Profile, get_profile

PRIME_TESTS = (
    64  # GMP: Baillie–PSW, then 64 − 24 = 40 Miller–Rabin rounds with random bases, each missed at most 1 in 4
)
Power = Callable[[mpz, mpz, mpz], mpz]


class SecretKey:
    """Decrypts. Refuses to be pickled or copied, and does not show itself."""

    __slots__ = ("_p", "_p_inverse", "_public", "_q", "_q_inverse", "_tables")

    def __init__(self, p: int, q: int, public: PublicKey) -> None:
        """A key from its primes, checked against the public key."""
        self._p, self._q, self._public = integer("p", p), integer("q", q), public
        if self._p * self._q != public.n or not (gmpy2.is_prime(self._p) and gmpy2.is_prime(self._q)):
            raise InvalidKey("p and q", "are not the primes of the public key", "use the key pair as it was generated")
        same_length = self._p.bit_length() == self._q.bit_length()
        if self._p == self._q or not same_length or gmpy2.gcd(public.modulus, (self._p - 1) * (self._q - 1)) != 1:
            raise InvalidKey("p and q", "do not make a Paillier key", "generate a new key pair")
        if any(pow(public.h, 2, int(prime)) == 1 for prime in (self._p, self._q)):
            raise InvalidKey("h", "hides nothing", "discard this public key: it was tampered with")
        self._p_inverse, self._q_inverse = gmpy2.invert(self._p, self._q), gmpy2.invert(self._q, self._p)
        self._tables: tuple[Table, Table] | None = None

    @property
    def public(self) -> PublicKey:
        """The key that goes with it."""
        return self._public

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: ObfuscatorPool | None = None) -> Ciphertexts:
        """What the public key's `encrypt` does, about twice as fast."""
        return encrypt_rows(self._public, self, self._public.plaintexts(ints), workers=workers, pool=pool)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1, constant_time: bool = False) -> Ints:
        """The first `count` values.

        Args:
            ciphertexts: exactly the rows that `count` values take.
            count: how many values were encrypted.
            workers: processes, used when the work is worth it.
            constant_time: exponentiate without secret-dependent memory accesses, 1.4 times slower: for a machine whose
                processor is shared with strangers.

        Raises:
            InvalidCiphertext: malformed rows, or rows that another key made.
        """
        public = self._public
        pairs = public.parse("ciphertexts", ciphertexts)
        public.check_coprime("ciphertexts", pairs)
        slots = public.slots
        if rows_of(checks.whole("count", count, low=1, high=2**40), slots) != len(pairs):
            problem = f"is {count:,}, but {len(pairs):,} rows hold {slots * (len(pairs) - 1) + 1:,} to "
            raise InvalidInput("count", f"{problem}{slots * len(pairs):,} values", "pass the number that was encrypted")
        width = public.half_bytes
        power = gmpy2.powmod_sec if constant_time else gmpy2.powmod
        rows = spread(
            lambda start, stop: to_bytes(self._decrypt_rows(pairs[start:stop], power), width),
            len(pairs),
            workers=workers,
            seconds_per_row=8 * public.seconds_per_row,
        )
        half = public.modulus // 2
        signed = [m - public.modulus if m > half else m for m in from_bytes(rows)]
        try:
            return unpack(signed, count, slot_bits=public.profile.slot_bits, slots=slots)
        except OverflowError:
            problem = "does not decrypt to packed values"
            fix = "check that this key made it, that `count` is right and that no sum left its slot"
            raise InvalidCiphertext("ciphertexts", problem, fix) from None

    def prepare(self) -> tuple[Table, Table]:
        """Build the tables modulo p² and q² now."""
        if self._tables is None:
            rows = self._public.profile.exponent_bits // 8
            base = gmpy2.powmod(self._public.h, self._public.modulus, self._public.modulus_squared)
            p, q = self._p, self._q
            self._tables = (
                power_table(base % p**2, rows=rows, prime=p),
                power_table(base % q**2, rows=rows, prime=q),
            )
        return self._tables

    def obfuscators(self, exponents: Exponents) -> list[Pair]:
        """h_s^a for each exponent a, modulo p² and q² apart."""
        table_p, table_q = self.prepare()
        p, q, n = self._p, self._q, self._public.modulus
        p2, q2 = p * p, q * q
        at_p = [x * (1 + u % p * p) for x, u in zip(*table_products(table_p, exponents, p2), strict=True)]
        at_q = [x * (1 + u % q * q) % q2 for x, u in zip(*table_products(table_q, exponents, q2), strict=True)]
        q2_inverse = gmpy2.invert(q2, p2)
        joined = [b + (a - b) * q2_inverse % p2 * q2 for a, b in zip(at_p, at_q, strict=True)]
        return pairs_of(joined, [mpz(0)] * len(joined), n)

    def __repr__(self) -> str:
        return f"SecretKey(<hidden>, {self._public!r})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a SecretKey cannot be pickled or copied; write it with sensecrypt.crypto.keyfile")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a SecretKey does not give its state away")

    def primes(self) -> tuple[int, int]:
        """The secret itself, for the key file alone."""
        return int(self._p), int(self._q)

    def _decrypt_rows(self, pairs: Sequence[Pair], power: Power) -> list[mpz]:
        p, q, n = self._p, self._q, self._public.modulus
        p2, q2 = p * p, q * q
        # Random factors that the exponentiation turns into 1: fresh for every batch, then squared from row to row.
        blind_p, blind_q = (gmpy2.powmod_sec(secrets.randbelow(int(r) - 1) + 1, r, r * r) for r in (p, q))
        plaintexts = []
        for x, u in pairs:
            c = x * (1 + u * n)
            at_p = (power(c * blind_p % p2, p - 1, p2) - 1) // p * -self._q_inverse % p
            at_q = (power(c * blind_q % q2, q - 1, q2) - 1) // q * -self._p_inverse % q
            plaintexts.append(at_q + (at_p - at_q) * self._q_inverse % p * q)
            blind_p, blind_q = blind_p * blind_p % p2, blind_q * blind_q % q2
        return plaintexts


def generate_paillier(profile: str | Profile) -> SecretKey:
    """A fresh key from the operating system's randomness.

    p ≡ q ≡ 3 (mod 4) and gcd(p − 1, q − 1) = 2, as the obfuscators' h = −x² needs it.
    """
    chosen = get_profile(profile)
    bits = chosen.key_bits // 2
    while True:
        p, q = _prime(bits), _prime(bits)
        if abs(p - q).bit_length() > bits - 100 and gmpy2.gcd(p - 1, q - 1) == 2:
            break
    n = int(p * q)
    x = 0
    while gmpy2.gcd(x, n) != 1:
        x = secrets.randbelow(n)
    return SecretKey(int(p), int(q), PublicKey(n, -x * x % n, chosen))


def _prime(bits: int) -> mpz:
    """A random prime ≡ 3 (mod 4) whose two leading bits are set, so that a product of two has 2·bits bits."""
    while True:
        candidate = mpz(secrets.randbits(bits) | (3 << (bits - 2)) | 3)
        if gmpy2.is_prime(candidate, PRIME_TESTS):
            return candidate
