"""Polynomials as bytes, with a fixed number of bits per coefficient: every string of that length is a polynomial.

The lower 32 bits of all coefficients come first. The upper bits follow in the widest digits that fit, lowest bits
first: 16 or 8 bits, 4 bits (two per byte), and single bits (eight per byte). All digits are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.ring.arithmetic import Words

Bytes = npt.NDArray[np.uint8]
Digits = npt.NDArray[Any]  # integers
LOW_BITS = 32


def packed_bytes(dimension: int, bits: int) -> int:
    """Return the length of a packed polynomial."""
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
    """Return the polynomials of packed rows: the inverse of `pack`."""
    return joined(digits(rows, bits), bits)


def digits(rows: Bytes, bits: int) -> list[Digits]:
    """Return the digits of packed polynomials. `joined` also accepts sums of digits, as the digits of sums."""
    start = rows.shape[-1] * LOW_BITS // bits
    found: list[Digits] = [rows[:, :start].view("<u4")]
    for width in _widths(bits - LOW_BITS):
        end = start + rows.shape[-1] * width // bits
        part = rows[:, start:end]
        if width >= 8:
            found.append(part.view(f"<u{width // 8}"))
        elif width == 4:
            found += [part & 15, part >> 4]
        else:
            found.append(np.unpackbits(part, axis=-1, bitorder="little"))
        start = end
    return found


def joined(sums: Sequence[Digits], bits: int) -> Words:
    """Return polynomials modulo 2^`bits`, in the lowest bits of words, from their digits or from sums of digits."""
    low, *above = sums
    high, done, place = np.zeros(low.shape, dtype=np.uint32), 0, 0  # overflow of its 32 bits is a multiple of 2^64
    for width in _widths(bits - LOW_BITS):
        if width == 4:
            high[..., ::2] += above[place].astype(np.uint32) << done
            high[..., 1::2] += above[place + 1].astype(np.uint32) << done
        else:
            high += above[place].astype(np.uint32) << done
        done, place = done + width, place + 1 + (width == 4)
    words = high.astype(np.int64)
    words <<= LOW_BITS
    words += low
    return words


def _widths(bits: int) -> list[int]:
    """Return the widths of the digits above the lower 32 bits."""
    return [*(width for width in (16, 8, 4) if bits & width), *[1] * (bits & 3)]
