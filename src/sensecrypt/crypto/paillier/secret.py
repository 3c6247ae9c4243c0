"""The secret side of Paillier: key generation, decryption, and encryption at twice the speed.

The aggregator's code must not import this module; `make check` enforces it.

Every randomizer is an n-th power, so its order modulo p² divides p − 1. Let e be a multiple of it. Then
c^e ≡ 1 + m·e·n (mod p²), and as n = p·q, m mod p = (c^e mod p² − 1)/p · (e·q)⁻¹ mod p. The same holds for q, and the
two halves are combined by the Chinese remainder theorem.

Usually e = p − 1. In a profile with a subgroup, p − 1 = 2·α_p·p' with primes α_p and p', h has order 2·α_p modulo p,
and e = 2·α_p is a quarter as long. If c is outside the subgroup, c^e is not 1 modulo p, and c is refused: the quotient
would be wrong, and would reveal a part of c^e, from which the author of c may learn the key.

Side channels: before the exponentiation, every ciphertext is multiplied by a random factor f with f^e = 1, so that the
timing does not depend on the ciphertext. Without a subgroup, f is a random p-th power modulo p²; with a subgroup, a
random power of h^p. `constant_time=True` also makes the exponentiation free of secret-dependent memory accesses. The
divisions, encryption and key generation are ordinary arithmetic: they are not protected against an attacker on the same
processor.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from functools import cache

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from sensecrypt.crypto.base import SecretKeyBase, check_count
from sensecrypt.crypto.encoding import from_bytes, to_bytes, unpack
from sensecrypt.crypto.paillier.fixedbase import Exponents, Pair, Table, pairs_of, power_table, table_products
from sensecrypt.crypto.paillier.public import PublicKey, encrypt_rows, integer
from sensecrypt.crypto.paillier.randomizers import RandomizerPool
from sensecrypt.crypto.parallel import spread
from sensecrypt.crypto.scheme import Ciphertexts, Ints, SecretScheme
from sensecrypt.errors import InvalidCiphertext, InvalidKey
from sensecrypt.profiles import Profile, get_profile

PRIME_TESTS = 64  # GMP: Baillie–PSW, then 64 − 24 = 40 random Miller–Rabin rounds, each with error at most 1/4
SIEVE_BELOW = 2**13  # bound of the small primes in the sieve for primes with a subgroup
SIEVE_WINDOW = 2**12  # candidates per sieve: few compared with 2^17, the mean distance of two solutions at 2048 bits
Power = Callable[[mpz, mpz, mpz], mpz]


class SecretKey(SecretKeyBase):
    """Decrypts, and encrypts faster than the public key."""

    __slots__ = ("_alphas", "_half_p", "_half_q", "_p", "_public", "_q", "_q_inverse", "_tables")

    def __init__(self, p: int, q: int, public: PublicKey, alphas: tuple[int, ...] = ()) -> None:
        """Check the primes against the public key.

        Args:
            p: one prime factor of n.
            q: the other prime factor.
            public: the public key of this pair.
            alphas: α_p and α_q in a profile with a subgroup, else empty.
        """
        self._p, self._q, self._public = integer("p", p), integer("q", q), public
        if self._p * self._q != public.n or not (gmpy2.is_prime(self._p) and gmpy2.is_prime(self._q)):
            raise InvalidKey("p and q", "are not the primes of the public key", "use the key pair as it was generated")
        same_length = self._p.bit_length() == self._q.bit_length()
        if self._p == self._q or not same_length or gmpy2.gcd(public.modulus, (self._p - 1) * (self._q - 1)) != 1:
            raise InvalidKey("p and q", "do not make a Paillier key", "generate a new key pair")
        if any(pow(public.h, 2, int(prime)) == 1 for prime in (self._p, self._q)):
            raise InvalidKey("h", "hides nothing", "discard this public key: it was manipulated")
        if not isinstance(alphas, tuple):
            raise InvalidKey("alphas", f"is a {type(alphas).__name__}", "pass a tuple")
        self._alphas = tuple(integer("alphas", alpha) for alpha in alphas)
        if public.profile.subgroup_bits or alphas:
            self._check_subgroup()
        alpha_p, alpha_q = self._alphas or ((self._p - 1) // 2, (self._q - 1) // 2)
        self._half_p = _Half(self._p, self._q, 2 * alpha_p, public.h)
        self._half_q = _Half(self._q, self._p, 2 * alpha_q, public.h)
        self._q_inverse = gmpy2.invert(self._q, self._p)
        self._tables: tuple[Table, Table] | None = None

    @property
    def public(self) -> PublicKey:
        """The public key of this pair."""
        return self._public

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: RandomizerPool | None = None) -> Ciphertexts:
        """Return fresh ciphertexts, like the public key's `encrypt`, about twice as fast."""
        return encrypt_rows(self._public, self, self._public.plaintexts(ints), workers=workers, pool=pool)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1, constant_time: bool = False) -> Ints:
        """Return the first `count` values.

        Args:
            ciphertexts: exactly the rows of `count` values.
            count: number of encrypted values.
            workers: the largest number of processes; small jobs use one.
            constant_time: exponentiate without secret-dependent memory accesses, 1.4 times slower; for machines whose
                processor is shared with other users.

        Raises:
            InvalidCiphertext: malformed rows, rows of another key, or rows outside the subgroup if there is one.
        """
        public = self._public
        pairs = public.parse("ciphertexts", ciphertexts)
        public.check_coprime("ciphertexts", pairs)
        slots = public.slots
        check_count(count, len(pairs), slots)
        width = public.half_bytes
        power = gmpy2.powmod_sec if constant_time else gmpy2.powmod
        rows = spread(
            lambda start, stop: to_bytes(self._decrypt_rows(pairs[start:stop], power), width),
            len(pairs),
            workers=workers,
            seconds_per_row=8 * public.seconds_per_row * self._half_p.exponent.bit_length() / self._p.bit_length(),
        )
        plaintexts = from_bytes(rows)
        if public.modulus in plaintexts:
            problem = f"has a randomizer outside the subgroup in row {plaintexts.index(public.modulus):,}"
            raise InvalidCiphertext("ciphertexts", problem, "pass only results of this key's encrypt, and their sums")
        half = public.modulus // 2
        signed = [m - public.modulus if m > half else m for m in plaintexts]
        try:
            return unpack(signed, count, slot_bits=public.profile.slot_bits, slots=slots)
        except OverflowError:
            problem = "does not decrypt to packed values"
            fix = "check that they are of this key, that `count` is right and that no sum overflowed its slot"
            raise InvalidCiphertext("ciphertexts", problem, fix) from None

    def prepare(self) -> tuple[Table, Table]:
        """Build the tables modulo p² and q² if necessary, and return them."""
        if self._tables is None:
            rows = self._public.profile.exponent_bits // 8
            base = gmpy2.powmod(self._public.h, self._public.modulus, self._public.modulus_squared)
            p, q = self._p, self._q
            self._tables = (
                power_table(base % p**2, rows=rows, prime=p),
                power_table(base % q**2, rows=rows, prime=q),
            )
        return self._tables

    def randomizers(self, exponents: Exponents) -> list[Pair]:
        """Return h_s^a for each exponent a, computed modulo p² and modulo q²."""
        table_p, table_q = self.prepare()
        p, q, n = self._p, self._q, self._public.modulus
        p2, q2 = p * p, q * q
        at_p = [x * (1 + u % p * p) for x, u in zip(*table_products(table_p, exponents, p2), strict=True)]
        at_q = [x * (1 + u % q * q) % q2 for x, u in zip(*table_products(table_q, exponents, q2), strict=True)]
        q2_inverse = gmpy2.invert(q2, p2)
        joined = [b + (a - b) * q2_inverse % p2 * q2 for a, b in zip(at_p, at_q, strict=True)]
        return pairs_of(joined, [mpz(0)] * len(joined), n)

    def primes(self) -> tuple[int, int]:
        """Return p and q; only for key files."""
        return int(self._p), int(self._q)

    def alphas(self) -> tuple[int, ...]:
        """Return the subgroup's primes, empty if there is no subgroup; only for key files, as secret as p and q."""
        return tuple(int(alpha) for alpha in self._alphas)

    def _check_subgroup(self) -> None:
        p, q, bits = self._p, self._q, self._public.profile.subgroup_bits
        well_formed = len(self._alphas) == 2 and all(a.bit_length() == bits and gmpy2.is_prime(a) for a in self._alphas)
        pairs = list(zip((p, q), self._alphas, strict=False))
        if not well_formed or gmpy2.gcd(p - 1, q - 1) != 2 or any((prime - 1) % alpha for prime, alpha in pairs):
            raise InvalidKey("alphas", "are not those of p and q", "use the key pair as it was generated")
        # h² is not 1 modulo p or q, so with this its order is a multiple of α_p and α_q.
        if any(gmpy2.powmod(self._public.h, 2 * alpha, prime) != 1 for prime, alpha in pairs):
            raise InvalidKey("h", "is outside the subgroup", "discard this public key: it did not come with p and q")

    def _decrypt_rows(self, pairs: Sequence[Pair], power: Power) -> list[mpz]:
        """Return the plaintexts; n, which is no plaintext, marks rows outside the subgroup (workers return numbers)."""
        half_p, half_q, p, q, n = self._half_p, self._half_q, self._p, self._q, self._public.modulus
        # Fresh for every batch, then squared from row to row: if f^e = 1, then (f²)^e = 1.
        blind_p, blind_q = half_p.blind(), half_q.blind()
        plaintexts = []
        for x, u in pairs:
            c = x * (1 + u * n)
            at_p, at_q = half_p.plaintext(c * blind_p, power), half_q.plaintext(c * blind_q, power)
            if at_p is None or at_q is None:
                plaintexts.append(n)
            else:
                plaintexts.append(at_q + (at_p - at_q) * self._q_inverse % p * q)
            blind_p, blind_q = blind_p * blind_p % half_p.square, blind_q * blind_q % half_q.square
        return plaintexts


class _Half:
    """Decryption modulo the square of one prime."""

    __slots__ = ("base", "exponent", "factor", "prime", "square")

    def __init__(self, prime: mpz, other: mpz, exponent: mpz, h: int) -> None:
        self.prime, self.square, self.exponent = prime, prime * prime, exponent
        self.factor = gmpy2.invert(exponent * other, prime)
        self.base = gmpy2.powmod(h, prime, self.square) if exponent != prime - 1 else None

    def blind(self) -> mpz:
        """Return a random f with f^exponent = 1, uniform among all (with a subgroup: among powers of h^p)."""
        if self.base is None:
            return gmpy2.powmod_sec(secrets.randbelow(int(self.prime) - 1) + 1, self.prime, self.square)
        return gmpy2.powmod_sec(self.base, secrets.randbelow(int(self.exponent)) + 1, self.square)

    def plaintext(self, c: mpz, power: Power) -> mpz | None:
        """Return the plaintext modulo the prime; None if c is outside the subgroup."""
        quotient, rest = divmod(power(c % self.square, self.exponent, self.square) - 1, self.prime)
        return None if rest else quotient * self.factor % self.prime


def generate_paillier(profile: str | Profile) -> SecretKey:
    """Return a fresh key from the operating system's randomness.

    p ≡ q ≡ 3 (mod 4) and gcd(p − 1, q − 1) = 2, as h = −x² requires. In a profile with a subgroup, h = −x^(2·β) with
    β = (p − 1)·(q − 1)/(4·α_p·α_q), of order 2·α_p·α_q; in the others β = 1.
    """
    chosen = get_profile(profile)
    bits, alpha_bits = chosen.key_bits // 2, chosen.subgroup_bits
    while True:
        p, alpha_p = _subgroup_prime(bits, alpha_bits) if alpha_bits else _prime(bits)
        q, alpha_q = _subgroup_prime(bits, alpha_bits) if alpha_bits else _prime(bits)
        if abs(p - q).bit_length() > bits - 100 and gmpy2.gcd(p - 1, q - 1) == 2:
            break
    n = int(p * q)
    x = 0
    while gmpy2.gcd(x, n) != 1:
        x = secrets.randbelow(n)
    beta = (p - 1) * (q - 1) // (4 * alpha_p * alpha_q)
    h = n - int(gmpy2.powmod(x, 2 * beta, n))
    alphas = (int(alpha_p), int(alpha_q)) if alpha_bits else ()
    return SecretKey(int(p), int(q), PublicKey(n, h, chosen), alphas)


def _prime(bits: int) -> tuple[mpz, mpz]:
    """Return a random prime p ≡ 3 (mod 4), and (p − 1)/2, which replaces α if there is no subgroup.

    The two leading bits of p are set, so that a product of two such primes has 2·bits bits.
    """
    p = _random_prime(bits, (3 << (bits - 2)) | 3)
    return p, (p - 1) // 2


def _subgroup_prime(bits: int, alpha_bits: int) -> tuple[mpz, mpz]:
    """Return a random prime p = 2·α·p' + 1 with the leading bits of `_prime`, and α; α and p' are prime as well.

    Odd candidates for p' are tested in windows, each with a new random start. Windows are much shorter than the
    distance of two solutions, so nearly all solutions are equally likely.
    """
    alpha = _random_prime(alpha_bits, 1 << (alpha_bits - 1) | 1)
    step = 2 * alpha
    low, high = (3 << (bits - 2)) // step + 1, (1 << bits) // step - 2 * SIEVE_WINDOW
    while True:
        start = (low + secrets.randbelow(int(high - low))) | 1
        for place in _unsieved(int(start), int(step)):
            cofactor = start + 2 * place
            p = step * cofactor + 1
            # The cheap test, which excludes most candidates, comes first.
            if gmpy2.is_strong_prp(cofactor, 2) and all(gmpy2.is_prime(r, PRIME_TESTS) for r in (p, cofactor)):
                return p, alpha


def _unsieved(start: int, step: int) -> list[int]:
    """Return the k in a window for which neither p' = start + 2·k nor p = step·p' + 1 has a small odd factor."""
    unsieved = np.ones(SIEVE_WINDOW, dtype=bool)
    for small in _odd_primes(SIEVE_BELOW):
        half, root = (small + 1) // 2, -pow(step, -1, small)  # 1/2 and the p' for which p = 0, modulo the small prime
        for zero in (0, root):
            unsieved[(zero - start) * half % small :: small] = False
    return np.flatnonzero(unsieved).tolist()


@cache
def _odd_primes(below: int) -> list[int]:
    return [number for number in range(3, below, 2) if gmpy2.is_prime(number)]


def _random_prime(bits: int, ones: int) -> mpz:
    """Return a random prime in which all bits of `ones` are set."""
    while True:
        candidate = mpz(secrets.randbits(bits) | ones)
        if gmpy2.is_prime(candidate, PRIME_TESTS):
            return candidate


def _serialize(key: SecretKey) -> bytes:
    named = zip(_names(key.public.profile), key.primes() + key.alphas(), strict=True)
    return json.dumps({name: f"{prime:x}" for name, prime in named}).encode()


def _parse(secret: bytes, public: PublicKey) -> SecretKey:
    parts = json.loads(secret)
    p, q, *alphas = (int(parts[name], 16) for name in _names(public.profile))
    return SecretKey(p, q, public, tuple(alphas))


def _names(profile: Profile) -> tuple[str, ...]:
    return ("p", "q", "alpha_p", "alpha_q") if profile.subgroup_bits else ("p", "q")


SCHEME = SecretScheme(SecretKey, generate_paillier, _serialize, _parse, constant_time=True)
