"""Polynomials modulo 2^51 as bytes: 51 bits a coefficient, so that all bytes of that length are a polynomial.

First the lower 32 bits of all coefficients, then the next 16, little-endian, then three rows of single bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS, Words

Bytes = npt.NDArray[np.uint8]
SINGLE_BITS = range(48, MODULUS_BITS)


def packed_bytes(dimension: int) -> int:
    """The length of a polynomial."""
    return dimension * MODULUS_BITS // 8


def pack(words: Words, out: Bytes) -> None:
    """Write polynomials, one a row, to rows of bytes; bits above the lower 51 are left out."""
    n = words.shape[-1]
    out[:, : 4 * n].view("<u4")[...] = words
    out[:, 4 * n : 6 * n].view("<u2")[...] = words >> 32
    top = (words >> 48).astype(np.uint8)
    for row, bit in enumerate(range(len(SINGLE_BITS))):
        start = 6 * n + row * n // 8
        out[:, start : start + n // 8] = np.packbits(top >> bit & 1, axis=-1, bitorder="little")


def unpack(rows: Bytes) -> Words:
    """The inverse of `pack`."""
    n = rows.shape[-1] * 8 // MODULUS_BITS
    words = rows[:, 4 * n : 6 * n].view("<u2").astype(np.int64)
    bits = np.unpackbits(rows[:, 6 * n :], axis=-1, bitorder="little").reshape(len(rows), len(SINGLE_BITS), n)
    words |= (bits[:, 0] | bits[:, 1] << 1 | bits[:, 2] << 2).astype(np.int64) << 16
    words <<= 32
    words |= rows[:, : 4 * n].view("<u4")
    return words
