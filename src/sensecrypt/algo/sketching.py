"""Sketches: short, keyed projections of sensitivity vectors that preserve distances (they replace Γ in the clear).

Clustering needs only distances between clients, and a random projection approximately preserves them. Without the seed,
a sketch is 256 sums of unknown coordinates with unknown signs.

The projection applies to the signed square root of every sensitivity. A few large sensitivities would dominate the
distance, and for clients with few samples these are noise. The distance of square roots is Hellinger's, in which every
parameter counts by its share of the total (decision 3 has the measurements).

The projection is a sparse Johnson–Lindenstrauss transform (Kane and Nelson 2014): the output has four parts, and in
each part a coordinate is added, with a random sign, at one random position. Position and sign are 16 bits of SHAKE-256
over the seed, computed in chunks, so that no projection matrix is stored. All sums run in a fixed order in double
precision: the same seed and vector give the same bytes on every machine.

All clients know the seed, and one of them may disclose it. So the key server *rotates* every sketch by a secret
rotation before sketches are compared: distances stay the same, and the seed alone does not relate a rotated sketch to
data.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

PARTS = 4
MIN_SEED_BYTES, SEED_BYTES = 16, 32
_CHUNK = 1 << 16
MAX_ROTATED = 256
_DOMAIN, _ROTATION_DOMAIN = b"sensecrypt sketch v2", b"sensecrypt turn v1"


def sketch(vector: npt.ArrayLike, *, seed: bytes, size: int = 256) -> checks.FloatVector:
    """Return a projection of the signed square roots of `vector`, scaled to norm 1, onto `size` numbers.

    The squared distance of two sketches is unbiased and has a relative standard deviation of at most √(2/size): 9 % at
    256, so 4.5 % on the distance.

    Args:
        vector: N numbers, not all zero; noise may have made some negative.
        seed: at least 16 secret bytes that all clients of a run share. A person with the seed and a sketch can compare
            it with sketches of other data, so only the client may have both (the key server rotates sketches).
        size: a multiple of 4.
    """
    values = checks.finite_vector("vector", vector)
    checks.whole("size", size, low=PARTS, high=PARTS << 15)
    if size % PARTS:
        raise InvalidInput("size", f"is {size}", f"pass a multiple of {PARTS}")
    if not isinstance(seed, bytes) or len(seed) < MIN_SEED_BYTES:
        raise InvalidInput("seed", "is not bytes, or is too short", f"pass at least {MIN_SEED_BYTES} random bytes")
    largest = float(np.abs(values).max())
    if largest == 0:
        raise InvalidInput("vector", "is zero everywhere", "compute gradients on at least one training sample first")

    width = size // PARTS
    result = np.zeros(size)
    squares = 0.0
    for start in range(0, values.size, _CHUNK):
        sizes = values[start : start + _CHUNK] / largest
        chunk = np.copysign(np.sqrt(np.abs(sizes)), sizes)
        # cumsum adds from left to right on every processor; the order of sum() depends on the processor.
        squares += float(np.cumsum(chunk * chunk)[-1])
        for part, random in enumerate(_keystream(seed, start, chunk.size)):
            signed = np.where(random & 1, chunk, -chunk)
            places = (random >> 1) % width
            result[part * width : (part + 1) * width] += np.bincount(places, weights=signed, minlength=width)
    return result / math.sqrt(squares * PARTS)


def rotate(row: npt.ArrayLike, *, seed: bytes) -> checks.FloatVector:
    """Return a sketch rotated by the secret rotation of `seed`, which preserves distances and norms.

    Args:
        row: a sketch of at most 256 numbers.
        seed: at least 16 secret bytes that only the key server has.
    """
    values = checks.finite_vector("row", row)
    checks.whole("size", values.size, low=1, high=MAX_ROTATED)
    message = _ROTATION_DOMAIN + len(seed).to_bytes(8, "little") + seed + values.size.to_bytes(8, "little")
    words = np.frombuffer(hashlib.shake_256(message).digest(16 * values.size**2), dtype="<u8")
    even, odd = ((words >> 11).astype(np.float64).reshape(2, -1) + 1) * 2.0**-53  # uniform in (0, 1]
    normal = np.sqrt(-2 * np.log(even)) * np.cos(2 * np.pi * odd)  # Box–Muller
    q, r = np.linalg.qr(normal.reshape(values.size, values.size))
    return np.asarray((q * np.sign(np.diag(r))) @ values, dtype=np.float64)


def _keystream(seed: bytes, start: int, count: int) -> npt.NDArray[np.uint16]:
    """Return PARTS × count random 16-bit numbers for the coordinates from `start` on."""
    message = _DOMAIN + len(seed).to_bytes(8, "little") + seed + start.to_bytes(8, "little")
    stream = hashlib.shake_256(message).digest(2 * PARTS * count)
    return np.frombuffer(stream, dtype="<u2").reshape(PARTS, count)
