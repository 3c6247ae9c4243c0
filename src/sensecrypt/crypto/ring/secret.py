"""Ring learning with errors: the secret side. Nothing that aggregates may import this module.

Whoever can have ciphertexts of its own making decrypted, and sees the values, learns the secret key: of (X^0, 0) the
"value" is s itself. Decrypt only sums that nobody sees before a MAC tag of the values has matched, and make every
refusal look the same: whether a forged ciphertext was refused is one bit about s. `decrypt` says neither which row nor
which coefficient was wrong.

Timing: no branch and no memory access of `decrypt` depends on the key or on a value, except whether it refuses.
"""

from __future__ import annotations

import os
from typing import NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.encoding import rows_of
from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS, Small, Words, product, small_transform, split_transform
from sensecrypt.crypto.ring.packing import pack, packed_bytes, unpack
from sensecrypt.crypto.ring.public import NOISE_BOUND, NOISE_VARIANCE, SEED_BYTES, SHIFT, RingPublicKey
from sensecrypt.crypto.ring.sampling import LARGEST_ERROR, TERNARY_VARIANCE, VARIANCE, errors, expand, ternary
from sensecrypt.crypto.scheme import Ciphertexts, Ints, SecretScheme
from sensecrypt.errors import InvalidCiphertext, InvalidInput, InvalidKey
from sensecrypt.profiles import Profile, get_profile

_UNUSED = 64 - MODULUS_BITS


class RingSecretKey:
    """Decrypts. Refuses to be pickled or copied, and does not show itself."""

    __slots__ = ("_public", "_s", "_transforms")

    def __init__(self, s: Small, public: RingPublicKey) -> None:
        """A key from its ternary polynomials, checked against the public key."""
        if s.dtype != np.int8 or s.shape != (public.polynomials, public.dimension) or (s > 1).any() or (s < -1).any():
            raise InvalidKey("s", "is no secret key of this profile", "use the key pair as it was generated")
        self._s, self._public, self._transforms = s, public, small_transform(s)
        b = unpack(np.frombuffer(public.b, dtype=np.uint8).reshape(len(s), -1))
        e = (b + product(self._transforms, split_transform(public.a))) << _UNUSED >> _UNUSED
        if (np.abs(e) > LARGEST_ERROR).any() or (_noise_variances(s, e) > NOISE_VARIANCE).any():
            raise InvalidKey("s", "does not go with the public key", "use the key pair as it was generated")

    @property
    def public(self) -> RingPublicKey:
        """The key that goes with it."""
        return self._public

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """The same as the public key's."""
        return self._public.encrypt(ints, workers=workers)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """The first `count` values.

        Raises:
            InvalidCiphertext: malformed rows, or, without saying where, rows with more noise than a sum of
                `MAX_SUMMANDS` ciphertexts has, or with values beyond `count`.
        """
        checks.whole("workers", workers, low=1, high=1024)  # one is enough
        public = self._public
        rows = public.checked("ciphertexts", ciphertexts)
        if rows_of(checks.whole("count", count, low=1, high=2**40), public.slots) != len(rows):
            least, most = public.slots * (len(rows) - 1) + 1, public.slots * len(rows)
            problem = f"is {count:,}, but {len(rows):,} rows hold {least:,} to {most:,} values"
            raise InvalidInput("count", problem, "pass the number that was encrypted")
        values = np.empty((len(rows), public.polynomials, public.dimension), dtype=np.int64)
        noisy = np.empty(len(rows), dtype=bool)
        for part in public.steps(len(rows)):
            noise = self._decrypt_rows(rows[part], values[part])
            noisy[part] = (noise > NOISE_BOUND).any(axis=(1, 2)) | (noise < -NOISE_BOUND).any(axis=(1, 2))
        flat = values.reshape(-1)
        if bool(noisy.any()) | bool(flat[count:].any()):
            problem = "do not decrypt to packed values"
            fix = "check that all are of this key, that `count` is right and that no sum has too many summands"
            raise InvalidCiphertext("ciphertexts", problem, fix)
        return flat[:count]

    def secret_bytes(self) -> bytes:
        """The secret itself, for the key file alone."""
        return self._s.tobytes()

    def __repr__(self) -> str:
        return f"RingSecretKey(<hidden>, {self._public!r})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a RingSecretKey cannot be pickled or copied; write it with sensecrypt.crypto.keyfile")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a RingSecretKey does not give its state away")

    def _decrypt_rows(self, rows: Ciphertexts, values: Words) -> Words:
        """Write the values of checked rows, and return the noise beside them."""
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
    """A fresh key from the operating system's randomness.

    A polynomial whose noise would exceed `NOISE_VARIANCE` is drawn again: one in 2^20.
    """
    chosen = get_profile(profile)
    n, k = chosen.key_bits, chosen.slots // chosen.key_bits
    seed = os.urandom(SEED_BYTES)
    a = split_transform(expand(seed, n))
    s, e = ternary((k, n)), errors((k, n))
    while (unsuited := _noise_variances(s, e) > NOISE_VARIANCE).any():
        s[unsuited], e[unsuited] = ternary((int(unsuited.sum()), n)), errors((int(unsuited.sum()), n))
    b = np.empty((k, packed_bytes(n)), dtype=np.uint8)
    pack(e - product(small_transform(s), a), b)
    return RingSecretKey(s, RingPublicKey(seed, b.tobytes(), chosen))


def _noise_variances(s: Small, e: npt.NDArray[np.int8] | Words) -> npt.NDArray[np.float64]:
    """V of each polynomial: the noise of one ciphertext, as `public` has it."""
    return TERNARY_VARIANCE * _squares(e) + VARIANCE + VARIANCE * _squares(s)


def _squares(polynomials: Small | Words) -> npt.NDArray[np.float64]:
    norms: npt.NDArray[np.float64] = (polynomials.astype(np.float64) ** 2).sum(axis=1)
    return norms


def _parse(secret: bytes, public: RingPublicKey) -> RingSecretKey:
    return RingSecretKey(np.frombuffer(secret, dtype=np.int8).reshape(public.polynomials, -1).copy(), public)


SCHEME = SecretScheme(RingSecretKey, generate_ring, RingSecretKey.secret_bytes, _parse)
