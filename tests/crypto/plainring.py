"""The ring scheme once more, in Python's integers alone: what vectors and tests compare the package with.

Polynomials are lists of integers, X^0 first.
"""

from __future__ import annotations

import hashlib

Q_BITS, DELTA_BITS, HEADER_BYTES = 51, 19, 16
FIRST_BITS, VALUE_BITS = 50, 44
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


def digits_above_32(bits: int) -> list[tuple[int, int]]:
    """Where the digits above the lower 32 bits begin, and how wide they are: 16, 8, 4 or single bits."""
    found, start = [], 32
    while start < bits:
        width = next(width for width in (16, 8, 4, 1) if width <= bits - start)
        found.append((start, width))
        start += width
    return found


def to_bytes(polynomial: list[int], bits: int = Q_BITS) -> bytes:
    placed = to_places(polynomial)
    data = b"".join((c % 2**32).to_bytes(4, "little") for c in placed)
    for start, width in digits_above_32(bits):
        digits = sum((c >> start & 2**width - 1) << width * i for i, c in enumerate(placed))
        data += digits.to_bytes(len(placed) * width // 8, "little")
    return data


def from_bytes(data: bytes, bits: int = Q_BITS) -> list[int]:
    n = len(data) * 8 // bits
    placed = [int.from_bytes(data[4 * i : 4 * i + 4], "little") for i in range(n)]
    for start, width in digits_above_32(bits):
        digits = int.from_bytes(data[n * start // 8 : n * (start + width) // 8], "little")
        for i in range(n):
            placed[i] |= (digits >> width * i & 2**width - 1) << start
    return from_places(placed)


def public_a(seed: bytes, n: int) -> list[int]:
    return from_bytes(hashlib.shake_128(b"sensecrypt ring" + seed).digest(n * Q_BITS // 8))


def public_b(seed: bytes, s: list[list[int]], e: list[list[int]]) -> list[list[int]]:
    a = public_a(seed, len(s[0]))
    return [plus(error, [-c for c in times(secret, a)]) for secret, error in zip(s, e, strict=True)]


def header(profile: str, seed: bytes, b: list[list[int]]) -> bytes:
    return hashlib.sha256(profile.encode() + seed + b"".join(map(to_bytes, b))).digest()[:HEADER_BYTES]


def without_lowest(polynomial: list[int], bits: int) -> bytes:
    """The bytes of the highest `bits` bits of each coefficient."""
    return to_bytes([c % Q >> Q_BITS - bits for c in polynomial], bits)


def encrypt(
    profile: str,
    seed: bytes,
    b: list[list[int]],
    values: list[list[int]],
    u: list[int],
    f: list[list[int]],
    d: list[list[int]],
) -> bytes:
    """A ciphertext with given randomness; `values` in the order in which they stand in it."""
    first = without_lowest(plus(times(u, public_a(seed, len(u))), f[0], d[0]), FIRST_BITS)
    others = [
        without_lowest(plus(times(u, each), error, rounding, [v << DELTA_BITS for v in from_places(row)]), VALUE_BITS)
        for each, error, rounding, row in zip(b, f[1:], d[1:], values, strict=True)
    ]
    return header(profile, seed, b) + first + b"".join(others)


def decrypt(ciphertext: bytes, s: list[list[int]]) -> tuple[list[int], int]:
    """The values in their order, and the largest noise."""
    start, size = HEADER_BYTES + len(s[0]) * FIRST_BITS // 8, len(s[0]) * VALUE_BITS // 8
    first = [c << Q_BITS - FIRST_BITS for c in from_bytes(ciphertext[HEADER_BYTES:start], FIRST_BITS)]
    values, noise = [], 0
    for index, secret in enumerate(s):
        packed = ciphertext[start + index * size :][:size]
        other = [c << Q_BITS - VALUE_BITS for c in from_bytes(packed, VALUE_BITS)]
        for phase in to_places(plus(times(secret, first), other)):
            value = (phase + 2 ** (DELTA_BITS - 1)) >> DELTA_BITS
            noise = max(noise, abs(phase - (value << DELTA_BITS)))
            values.append((value + 2**31) % 2**32 - 2**31)
    return values, noise
