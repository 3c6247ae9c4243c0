"""Random polynomials. Bits come from AES-256 in counter mode, with a fresh key from the operating system per call.

No branch and no memory access depends on the random values, except on rejected bytes, which are not used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS, Small, Words
from sensecrypt.crypto.ring.packing import Bytes, packed_bytes, unpack

COINS = 42  # the standard deviation √(42/4) = 3.24 is just above the 8/√(2π) = 3.19 of the standard
VARIANCE = COINS / 4
LARGEST_ERROR = COINS // 2
TERNARY_VARIANCE = 2 / 3


def random_bytes(count: int) -> Bytes:
    """Return pseudorandom bytes."""
    stream = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(bytearray(stream.update(bytes(count))), dtype=np.uint8)


def ternary(shape: tuple[int, ...]) -> Small:
    """Return coefficients −1, 0 and 1, each with probability exactly 1/3: a byte below 255, modulo 3."""
    drawn = random_bytes(int(np.prod(shape)))
    again = np.flatnonzero(drawn == 255)
    while again.size:
        drawn[again] = random_bytes(again.size)
        again = again[drawn[again] == 255]
    thirds = (drawn.astype(np.uint16) * 171 >> 9).astype(np.uint8)  # a division by 3, for all bytes
    rests: Small = (drawn - 3 * thirds).view(np.int8).reshape(shape)
    return rests - np.int8(1)


def errors(shape: tuple[int, ...]) -> Small:
    """Return coefficients of a centred binomial distribution: the number of ones in 42 random bits, minus 21."""
    coins = random_bytes(6 * int(np.prod(shape))).reshape(6, -1)
    coins[5] &= 2 ** (COINS - 40) - 1
    heads: Small = np.bitwise_count(coins).sum(axis=0, dtype=np.uint8).view(np.int8).reshape(shape)
    return heads - np.int8(LARGEST_ERROR)


def below_powers_of_2(exponents: Sequence[int], shape: tuple[int, ...]) -> Bytes:
    """Return uniform numbers below 2^t for each exponent t ≤ 8; they round polynomials to multiples of 2^t."""
    drawn = random_bytes(len(exponents) * int(np.prod(shape))).reshape(len(exponents), *shape)
    for numbers, exponent in zip(drawn, exponents, strict=True):
        numbers &= 2**exponent - 1
    return drawn


def expand(seed: bytes, dimension: int) -> Words:
    """Return the public polynomial a, uniform modulo q: SHAKE-128 of the seed, parsed as a packed polynomial.

    It is a hash, so the creator of a key cannot choose it.
    """
    data = hashlib.shake_128(b"sensecrypt ring" + seed).digest(packed_bytes(dimension, MODULUS_BITS))
    polynomial: Words = unpack(np.frombuffer(data, dtype=np.uint8).reshape(1, -1), MODULUS_BITS)[0]
    return polynomial
