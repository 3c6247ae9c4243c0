"""Fixed-base exponentiation with a table, and pairs (x, u) that represent numbers x·(1 + u·n) modulo n².

See `public` for the identities. The argument `prime` is n on the public side and p or q on the secret side; the code
does not need it to be prime.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from sensecrypt.crypto.encoding import from_bytes, to_bytes

Exponents = npt.NDArray[np.uint8]  # one row per exponent, little-endian
Pair = tuple[mpz, mpz]  # (x, u) of x·(1 + u·n)
Table = list[tuple[list[mpz], npt.NDArray[np.uint32]]]  # per row: all x, and the limbs of all u, of x·(1 + u·n)

LIMB, LIMB_TYPE = 4, "<u4"  # bytes; limbs are summed in 64 bits, which is enough for 2^32 numbers
_BATCH = 256  # exponents at a time: their products and one row of the table fit a 512 kB cache


def pairs_of(products: Sequence[mpz], totals: Sequence[mpz], n: mpz) -> list[Pair]:
    """Return pairs (x, u) with x·(1 + u·n) = product·(1 + total·n) modulo n²; ZeroDivisionError if one is no unit."""
    divided = [divmod(product, n) for product in products]
    inverses = _inverses([rest for _, rest in divided], n)
    return [
        (rest, (total + quotient * inverse) % n)
        for (quotient, rest), inverse, total in zip(divided, inverses, totals, strict=True)
    ]


def power_table(base: mpz, *, rows: int, prime: mpz) -> Table:
    """Return a table whose row j holds base^(d·256^j) mod prime² for d = 0 … 255, as all x and u of x·(1 + u·prime).

    The number of rows is even.
    """
    square, width = prime * prime, LIMB * -(-prime.bit_length() // (8 * LIMB))
    table = []
    for _ in range(rows):
        powers = [mpz(1)]
        for _ in range(255):
            powers.append(powers[-1] * base % square)
        base = powers[-1] * base % square
        pairs = pairs_of(powers, [mpz(0)] * 256, prime)
        table.append(([x for x, _ in pairs], to_bytes([u for _, u in pairs], width).view(LIMB_TYPE)))
    return table


def table_products(table: Table, exponents: Exponents, square: mpz) -> tuple[list[mpz], list[mpz]]:
    """Return all X and all U with base^a = X·(1 + U·prime) modulo prime²: the inner loop of encryption.

    A batch of exponents is processed row by row: one row fits the processor's cache, the whole table does not.
    """
    products: list[mpz] = []
    totals: list[mpz] = []
    for start in range(0, len(exponents), _BATCH):
        batch = exponents[start : start + _BATCH]
        product = [mpz(1)] * len(batch)
        total = np.zeros((len(batch), table[0][1].shape[1]), dtype=np.uint64)
        for row in range(0, len(table), 2):  # two factors at a time: one reduction for both
            (xs, us), (ys, vs), (i, j) = table[row], table[row + 1], batch.T[row : row + 2]
            factors = map(mul, map(xs.__getitem__, i.tolist()), map(ys.__getitem__, j.tolist()))
            product = [p % square for p in map(mul, product, factors)]
            total += us[i]
            total += vs[j]
        products += product
        totals += from_limbs(total)
    return products, totals


def from_limbs(limbs: npt.NDArray[np.uint64]) -> list[mpz]:
    """Return the numbers of limbs that were summed without carries."""
    low, high = (from_bytes(part.astype(LIMB_TYPE).view(np.uint8)) for part in (limbs, limbs >> np.uint64(8 * LIMB)))
    return [a + (b << 8 * LIMB) for a, b in zip(low, high, strict=True)]


def _inverses(numbers: Sequence[mpz], modulus: mpz) -> list[mpz]:
    """Return all inverses with one inversion and three multiplications per number (Montgomery's trick)."""
    prefix = [mpz(1)]
    for number in numbers:
        prefix.append(prefix[-1] * number % modulus)
    inverse = gmpy2.invert(prefix[-1], modulus)
    result = []
    for number, before in zip(reversed(numbers), reversed(prefix[:-1]), strict=True):
        result.append(inverse * before % modulus)
        inverse = inverse * number % modulus
    return result[::-1]
