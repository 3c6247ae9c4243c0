"""CKKS, implemented by TenSEAL: the secret side. The aggregator's code must not import this module."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.base import SecretKeyBase, check_count, profile_of
from sensecrypt.crypto.ckks.public import COEFFICIENT_BITS, SCALE, CkksPublicKey, load_context, parse_with, tenseal
from sensecrypt.crypto.scheme import Ciphertexts, Ints, SecretScheme
from sensecrypt.errors import InvalidCiphertext, InvalidKey
from sensecrypt.profiles import Profile, get_profile


class CkksSecretKey(SecretKeyBase):
    """Decrypts; holds TenSEAL's private context."""

    def __init__(self, context: bytes, profile: str | Profile = "ckks-8192") -> None:
        """Parse TenSEAL's serialised private context."""
        self._context = load_context(context, profile_of("ckks", profile))
        if not self._context.has_secret_key():
            raise InvalidKey("context", "holds no secret key", "use the key as it was generated")
        self._public = CkksPublicKey(_serialise(self._context, secret=False), profile)

    @property
    def public(self) -> CkksPublicKey:
        """The public key of this pair."""
        return self._public

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Return fresh ciphertexts, like the public key's `encrypt`."""
        return self._public.encrypt(ints, workers=workers)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """Return the first `count` values, rounded to integers."""
        checks.whole("workers", workers, low=1, high=1024)
        profile = self._public.profile
        vectors = parse_with(self._context, profile, "ciphertexts", ciphertexts)
        check_count(count, len(vectors), profile.slots)
        rounded = np.rint(np.concatenate([np.array(vector.decrypt()) for vector in vectors]))
        end = 2.0 ** (profile.slot_bits - 1)
        if not ((rounded >= -end) & (rounded < end)).all() or rounded[count:].any():  # also refuses NaN
            fix = "check that they are of this key, that `count` is right and that no sum overflowed its slot"
            raise InvalidCiphertext("ciphertexts", "does not decrypt to integers of 32 bits", fix)
        values: Ints = rounded[:count].astype(np.int64)
        return values

    def private_context(self) -> bytes:
        """Return the serialised private context; only for key files."""
        return _serialise(self._context, secret=True)


def generate_ckks(profile: str | Profile) -> CkksSecretKey:
    """Return a fresh key; TenSEAL draws it from the operating system's randomness."""
    chosen, ts = get_profile(profile), tenseal()
    context = ts.context(
        ts.SCHEME_TYPE.CKKS, poly_modulus_degree=chosen.key_bits, coeff_mod_bit_sizes=COEFFICIENT_BITS, n_threads=1
    )
    context.global_scale = SCALE
    return CkksSecretKey(_serialise(context, secret=True), chosen)


def _serialise(context: Any, *, secret: bool) -> bytes:
    serialised: bytes = context.serialize(
        save_public_key=True, save_secret_key=secret, save_galois_keys=False, save_relin_keys=False
    )
    return serialised


def _parse(secret: bytes, public: CkksPublicKey) -> CkksSecretKey:
    return CkksSecretKey(secret, public.profile)


SCHEME = SecretScheme(CkksSecretKey, generate_ckks, CkksSecretKey.private_context, _parse)
