"""Exact products in Z[X]/(X^n + 1) modulo q = 2^51, computed by floating-point Fourier transforms.

A coefficient modulo q is the lower 51 bits of a 64-bit word: sums of words wrap at 2^64, a multiple of q, and need no
reduction. The coefficients of X^j and X^(j + n/2), j < n/2, are stored next to each other. X^(n/2) is a square root of
−1, so each such pair is one complex number, and a polynomial is n/2 complex numbers. If the j-th of them is multiplied
by exp(πij/n), a product of polynomials is a cyclic convolution.

Only products with a small polynomial u, with coefficients −1, 0, 1, are needed. The other factor is split into halves,
`low` + 2^25 · `high`, each of absolute value at most 2^25.

Why rounding gives the exact product for every other factor: let ε = 2^−53, N = n/2 = 1024, and a be one half:
‖a‖₂ ≤ 2^25 · √n = 2^30.5. The norm of the transform's error is at most log₂N · (7.7 ε) times the norm of the transform
(Higham, Accuracy and Stability, theorem 24.2, twiddle factors accurate to 2 ε); with the multiplication by exp(πij/n)
that is below δ = 2^−46. No value of u's transform exceeds Σ|u_j| ≤ 2^11, and ‖u‖₂ ≤ 2^5.5, so the error of the product
of the transforms is at most √N · ‖a‖₂ · δ · (2^11 + 2^5 · 2^5.5 + 1), and that of the product after the inverse
transform at most ‖a‖₂ · δ · (2 · 2^11 + 2^10.5 + 1) < 2^30.5 · 2^−46 · 2^12.5 = 2^−3. Rounding needs less than 2^−1. No
product exceeds 2^25 · 2^11 = 2^36, which the constant of `_rounded` allows.

Timing: no branch and no memory access depends on a coefficient.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

MODULUS_BITS = 51
MODULUS = 2**MODULUS_BITS
LARGEST_DIMENSION = 2048  # the error bound above holds up to here
LOW_BITS = 25
ROUNDING = 1.5 * 2.0**52  # the lower 51 bits of this plus a small number are the rounded number modulo 2^51

Words = npt.NDArray[np.int64]
Small = npt.NDArray[np.int8]
Transforms = npt.NDArray[np.complex128]


def transform(coefficients: npt.NDArray[np.float64]) -> Transforms:
    """Return the transform of polynomials along the last axis."""
    pairs = np.multiply(coefficients.view(np.complex128), _twists(coefficients.shape[-1]))
    return np.fft.fft(pairs, out=pairs)


def small_transform(polynomials: Small) -> Transforms:
    """Return the transform of polynomials with small coefficients."""
    return transform(polynomials.astype(np.float64))


def split_transform(polynomials: Words) -> Transforms:
    """Return the transforms of the halves of polynomials modulo q, on a new axis before the last one."""
    halves = np.empty((*polynomials.shape[:-1], 2, polynomials.shape[-1]))
    unused = 64 - MODULUS_BITS
    halves[..., 0, :] = polynomials << (64 - LOW_BITS) >> (64 - LOW_BITS)  # arithmetic shifts: −2^24 … 2^24 − 1
    halves[..., 1, :] = (polynomials + 2 ** (LOW_BITS - 1)) << unused >> (unused + LOW_BITS)
    return transform(halves)


def product(small: Transforms, halves: Transforms) -> Words:
    """Return the product of transformed small polynomials and polynomials modulo q; the words' lower 51 bits count."""
    pairs = small[..., None, :] * halves
    np.fft.ifft(pairs, out=pairs)
    pairs *= _twists(2 * pairs.shape[-1]).conj()
    low_high = _rounded(pairs.view(np.float64))
    words: Words = (low_high[..., 1, :] << LOW_BITS) + low_high[..., 0, :]
    return words


def _rounded(numbers: npt.NDArray[np.float64]) -> Words:
    """Overwrite numbers below 2^50 by words whose lower bits are the nearest integers modulo 2^51, and return these."""
    numbers += ROUNDING
    return numbers.view(np.int64)


@cache
def _twists(dimension: int) -> Transforms:
    if dimension > LARGEST_DIMENSION:
        raise ValueError("the bound on rounding errors is for dimensions up to 2048")
    twists: Transforms = np.exp(1j * np.pi / dimension * np.arange(dimension // 2))
    twists.flags.writeable = False
    return twists
