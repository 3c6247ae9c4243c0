"""Ring learning with errors: the secret side. The aggregator's code must not import this module.

An attacker who gets chosen ciphertexts decrypted learns the secret key: (X^0, 0) decrypts to s. So no decrypted value
may be shown before the MAC tag of the values has matched, and all refusals must look the same: whether a forged
ciphertext was refused is one bit of information about s. `decrypt` does not report which row or coefficient was wrong.

Timing: no branch and no memory access of `decrypt` depends on the key or on a value, except whether it refuses.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.base import SecretKeyBase, check_count
from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS, Small, Words, product, small_transform, split_transform
from sensecrypt.crypto.ring.packing import pack, packed_bytes, unpack
from sensecrypt.crypto.ring.public import (
    FIRST_BITS,
    NOISE_BOUND,
    NOISE_VARIANCE,
    SEED_BYTES,
    SHIFT,
    VALUE_BITS,
    RingPublicKey,
)
from sensecrypt.crypto.ring.sampling import LARGEST_ERROR, TERNARY_VARIANCE, VARIANCE, errors, expand, ternary
from sensecrypt.crypto.scheme import Ciphertexts, Ints, SecretScheme
from sensecrypt.errors import InvalidCiphertext, InvalidKey
from sensecrypt.profiles import Profile, get_profile

_UNUSED = 64 - MODULUS_BITS


class RingSecretKey(SecretKeyBase):
    """Decrypts; holds the ternary polynomials s_j."""

    __slots__ = ("_public", "_s", "_transforms")

    def __init__(self, s: Small, public: RingPublicKey) -> None:
        """Check the ternary polynomials against the public key."""
        if s.dtype != np.int8 or s.shape != (public.polynomials, public.dimension) or (s > 1).any() or (s < -1).any():
            raise InvalidKey("s", "is not a secret key of this profile", "use the key pair as it was generated")
        self._s, self._public, self._transforms = s, public, small_transform(s)
        b = unpack(np.frombuffer(public.b, dtype=np.uint8).reshape(len(s), -1), MODULUS_BITS)
        e = (b + product(self._transforms, split_transform(public.a))) << _UNUSED >> _UNUSED
        if (np.abs(e) > LARGEST_ERROR).any() or (_noise_variances(s, e) > NOISE_VARIANCE).any():
            raise InvalidKey("s", "does not match the public key", "use the key pair as it was generated")

    @property
    def public(self) -> RingPublicKey:
        """The public key of this pair."""
        return self._public

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Return fresh ciphertexts, like the public key's `encrypt`."""
        return self._public.encrypt(ints, workers=workers)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """Return the first `count` values.

        Raises:
            InvalidCiphertext: malformed rows; rows with more noise than a sum of `max_summands` ciphertexts, or with
                values beyond `count`, without saying which.
        """
        checks.whole("workers", workers, low=1, high=1024)  # without effect: one process is enough
        public = self._public
        rows = public.checked("ciphertexts", ciphertexts)
        check_count(count, len(rows), public.slots)
        values = np.empty((len(rows), public.polynomials, public.dimension), dtype=np.int64)
        noisy = np.empty((len(rows), public.polynomials), dtype=bool)
        for part in public.steps(len(rows)):
            noise = self._decrypt_rows(rows[part], values[part])
            noisy[part] = (noise > NOISE_BOUND).any(axis=2) | (noise < -NOISE_BOUND).any(axis=2)
        used = -(-count // public.dimension)  # the polynomials after them hold nothing, and may be missing
        flat = values.reshape(-1)
        if bool(noisy.reshape(-1)[:used].any()) | bool(flat[count : used * public.dimension].any()):
            problem = "do not decrypt to packed values"
            fix = "check that they are of this key, that `count` is right and that no sum has too many summands"
            raise InvalidCiphertext("ciphertexts", problem, fix)
        return flat[:count]

    def secret_bytes(self) -> bytes:
        """Return the serialized secret polynomials; only for key files."""
        return self._s.tobytes()

    def _decrypt_rows(self, rows: Ciphertexts, values: Words) -> Words:
        """Write the values of checked rows to `values`, and return their noise."""
        words = self._public.words(rows)
        halves = split_transform(words[:, 0])
        phases = words[:, 1:]
        for index, small in enumerate(self._transforms):
            phases[:, index] += product(small, halves)
        phases += 2 ** (SHIFT - 1)
        values[...] = phases << _UNUSED >> (_UNUSED + SHIFT)
        phases &= 2**SHIFT - 1
        phases -= 2 ** (SHIFT - 1)
        return phases


def generate_ring(profile: str | Profile) -> RingSecretKey:
    """Return a fresh key from the operating system's randomness.

    Polynomials whose noise would exceed `NOISE_VARIANCE`, one in 2^20, are drawn again.
    """
    chosen = get_profile(profile)
    n, k = chosen.key_bits, chosen.slots // chosen.key_bits
    seed = os.urandom(SEED_BYTES)
    a = split_transform(expand(seed, n))
    s, e = ternary((k, n)), errors((k, n))
    while (unsuited := _noise_variances(s, e) > NOISE_VARIANCE).any():
        s[unsuited], e[unsuited] = ternary((int(unsuited.sum()), n)), errors((int(unsuited.sum()), n))
    b = np.empty((k, packed_bytes(n, MODULUS_BITS)), dtype=np.uint8)
    pack(e - product(small_transform(s), a), b, MODULUS_BITS)
    return RingSecretKey(s, RingPublicKey(seed, b.tobytes(), chosen))


def _noise_variances(s: Small, e: npt.NDArray[np.int8] | Words) -> npt.NDArray[np.float64]:
    """Return V of each polynomial, the noise variance of one ciphertext (see `public`)."""
    rounding_first, rounding = (4.0 ** (MODULUS_BITS - bits) / 4 for bits in (FIRST_BITS, VALUE_BITS))
    return TERNARY_VARIANCE * _squares(e) + VARIANCE + rounding + (VARIANCE + rounding_first) * _squares(s)


def _squares(polynomials: Small | Words) -> npt.NDArray[np.float64]:
    norms: npt.NDArray[np.float64] = (polynomials.astype(np.float64) ** 2).sum(axis=1)
    return norms


def _parse(secret: bytes, public: RingPublicKey) -> RingSecretKey:
    return RingSecretKey(np.frombuffer(secret, dtype=np.int8).reshape(public.polynomials, -1).copy(), public)


SCHEME = SecretScheme(RingSecretKey, generate_ring, RingSecretKey.secret_bytes, _parse)
