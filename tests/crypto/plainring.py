"""The ring scheme once more, in Python's integers alone: what vectors and tests compare the package with.

Polynomials are lists of integers, X^0 first.
"""

from __future__ import annotations

import hashlib

Q_BITS, DELTA_BITS, HEADER_BYTES = 51, 19, 16
Q = 2**Q_BITS


def times(small: list[int], other: list[int]) -> list[int]:
    """The product modulo X^n + 1 and q: one product of long integers, 10 bytes a coefficient."""
    n, half = len(small), 2**79
    long_product = sum(c << 80 * i for i, c in enumerate(small)) * int.from_bytes(
        b"".join(c.to_bytes(10, "little") for c in other), "little"
    )
    long_product += sum(half << 80 * i for i in range(2 * n))
    digits = long_product.to_bytes(20 * n + 1, "little")
    coefficients = [int.from_bytes(digits[10 * i : 10 * i + 10], "little") - half for i in range(2 * n)]
    return [(low - high) % Q for low, high in zip(coefficients[:n], coefficients[n:], strict=True)]


def plus(*polynomials: list[int]) -> list[int]:
    return [sum(coefficients) % Q for coefficients in zip(*polynomials, strict=True)]


def places(n: int) -> list[int]:
    """The exponent that stands at each place: 0, n/2, 1, n/2 + 1, …"""
    return [exponent for j in range(n // 2) for exponent in (j, j + n // 2)]


def from_places(coefficients: list[int]) -> list[int]:
    polynomial = [0] * len(coefficients)
    for exponent, coefficient in zip(places(len(coefficients)), coefficients, strict=True):
        polynomial[exponent] = int(coefficient)
    return polynomial


def to_places(polynomial: list[int]) -> list[int]:
    return [polynomial[exponent] for exponent in places(len(polynomial))]


def to_bytes(polynomial: list[int]) -> bytes:
    placed = to_places(polynomial)
    low = b"".join((c % 2**32).to_bytes(4, "little") for c in placed)
    middle = b"".join((c >> 32 & 0xFFFF).to_bytes(2, "little") for c in placed)
    rows = (sum((c >> bit & 1) << i for i, c in enumerate(placed)) for bit in (48, 49, 50))
    return low + middle + b"".join(row.to_bytes(len(placed) // 8, "little") for row in rows)


def from_bytes(data: bytes) -> list[int]:
    n = len(data) * 8 // Q_BITS
    low, middle, top = data[: 4 * n], data[4 * n : 6 * n], data[6 * n :]
    rows = [int.from_bytes(top[i * n // 8 : (i + 1) * n // 8], "little") for i in range(3)]
    return from_places(
        [
            int.from_bytes(low[4 * i : 4 * i + 4], "little")
            | int.from_bytes(middle[2 * i : 2 * i + 2], "little") << 32
            | sum((row >> i & 1) << (48 + bit) for bit, row in enumerate(rows))
            for i in range(n)
        ]
    )


def public_a(seed: bytes, n: int) -> list[int]:
    return from_bytes(hashlib.shake_128(b"sensecrypt ring" + seed).digest(n * Q_BITS // 8))


def public_b(seed: bytes, s: list[list[int]], e: list[list[int]]) -> list[list[int]]:
    a = public_a(seed, len(s[0]))
    return [plus(error, [-c for c in times(secret, a)]) for secret, error in zip(s, e, strict=True)]


def header(profile: str, seed: bytes, b: list[list[int]]) -> bytes:
    return hashlib.sha256(profile.encode() + seed + b"".join(map(to_bytes, b))).digest()[:HEADER_BYTES]


def encrypt(
    profile: str, seed: bytes, b: list[list[int]], values: list[list[int]], u: list[int], f: list[list[int]]
) -> bytes:
    """A ciphertext with given randomness; `values` in the order in which they stand in it."""
    first = plus(times(u, public_a(seed, len(u))), f[0])
    others = [
        plus(times(u, each), error, [value << DELTA_BITS for value in from_places(row)])
        for each, error, row in zip(b, f[1:], values, strict=True)
    ]
    return header(profile, seed, b) + b"".join(map(to_bytes, [first, *others]))


def decrypt(ciphertext: bytes, s: list[list[int]]) -> tuple[list[int], int]:
    """The values in their order, and the largest noise."""
    size = len(s[0]) * Q_BITS // 8
    body = ciphertext[HEADER_BYTES:]
    first, *others = (from_bytes(body[i : i + size]) for i in range(0, len(body), size))
    values, noise = [], 0
    for secret, other in zip(s, others, strict=True):
        for phase in to_places(plus(times(secret, first), other)):
            value = (phase + 2 ** (DELTA_BITS - 1)) >> DELTA_BITS
            noise = max(noise, abs(phase - (value << DELTA_BITS)))
            values.append((value + 2**31) % 2**32 - 2**31)
    return values, noise
