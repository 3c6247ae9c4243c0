"""Polynomials as bytes: so many bits per coefficient, so that every string of that length is a polynomial.

First the lower 32 bits of all coefficients. What is above them follows in the widest digits that fit, lowest bits
first: of 16 or 8 bits, of 4 bits (two to a byte), and single bits (eight to a byte). All is little-endian.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.ring.arithmetic import Words

Bytes = npt.NDArray[np.uint8]
LOW_BITS = 32


def packed_bytes(dimension: int, bits: int) -> int:
    """The length of a packed polynomial."""
    return dimension * bits // 8


def pack(words: Words, out: Bytes, bits: int) -> None:
    """Write the lowest `bits` bits of polynomials, one per row, to rows of bytes."""
    n = words.shape[-1]
    start = n * LOW_BITS // 8
    out[:, :start].view("<u4")[...] = words
    high = (words >> LOW_BITS).astype(np.uint32)
    for width in _widths(bits - LOW_BITS):
        end = start + n * width // 8
        part = out[:, start:end]
        if width >= 8:
            part.view(f"<u{width // 8}")[...] = high
        elif width == 4:
            part[...] = high[:, ::2] & 15 | high[:, 1::2] << 4
        else:
            part[...] = np.packbits((high & 1).astype(np.uint8), axis=-1, bitorder="little")
        high >>= width
        start = end


def unpack(rows: Bytes, bits: int) -> Words:
    """The inverse of `pack`."""
    n = rows.shape[-1] * 8 // bits
    start, done = n * LOW_BITS // 8, 0
    high = np.zeros((len(rows), n), dtype=np.uint32)
    for width in _widths(bits - LOW_BITS):
        end = start + n * width // 8
        part = rows[:, start:end]
        if width >= 8:
            high |= part.view(f"<u{width // 8}").astype(np.uint32) << done
        elif width == 4:
            high[:, ::2] |= (part & 15).astype(np.uint32) << done
            high[:, 1::2] |= (part >> 4).astype(np.uint32) << done
        else:
            high |= np.unpackbits(part, axis=-1, bitorder="little").astype(np.uint32) << done
        start, done = end, done + width
    words = high.astype(np.int64)
    words <<= LOW_BITS
    words |= rows[:, : n * LOW_BITS // 8].view("<u4")
    return words


def _widths(bits: int) -> list[int]:
    """The widths of the digits above the lower 32 bits."""
    return [*(width for width in (16, 8, 4) if bits & width), *[1] * (bits & 3)]
