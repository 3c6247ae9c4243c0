"""Key pairs of any profile."""

from __future__ import annotations

from typing import Literal, overload

from sensecrypt.crypto.ckks import CkksPublicKey
from sensecrypt.crypto.ckks_secret import CkksSecretKey, generate_ckks
from sensecrypt.crypto.paillier import PublicKey
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey
from sensecrypt.crypto.secret import SecretKey, generate_paillier
from sensecrypt.profiles import DEFAULT_PROFILE, Profile, get_profile

PaillierName = Literal[
    "paillier-2048",
    "paillier-2048-slot16",
    "paillier-2048-slot64",
    "paillier-2048-short",
    "paillier-2048-subgroup",
    "paillier-2048-scalar",
    "paillier-3072",
    "insecure-test",
]


@overload
def generate_keypair(profile: PaillierName = ...) -> tuple[PublicKey, SecretKey]: ...
@overload
def generate_keypair(profile: Literal["ckks-8192"]) -> tuple[CkksPublicKey, CkksSecretKey]: ...
@overload
def generate_keypair(profile: str | Profile) -> tuple[EncryptionKey, DecryptionKey]: ...
def generate_keypair(profile: str | Profile = DEFAULT_PROFILE) -> tuple[EncryptionKey, DecryptionKey]:
    """A fresh key pair: (public, secret).

    Args:
        profile: a name from `sensecrypt.profiles.PROFILES`.
    """
    chosen = get_profile(profile)
    if chosen.scheme == "ckks":
        ckks = generate_ckks(chosen)
        return ckks.public, ckks
    secret = generate_paillier(chosen)
    return secret.public, secret
