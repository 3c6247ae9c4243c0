"""Generates key pairs of any profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from sensecrypt.crypto.scheme import StorablePublicKey, StorableSecretKey
from sensecrypt.crypto.secretschemes import SECRET_SCHEMES
from sensecrypt.profiles import DEFAULT_PROFILE, Profile, get_profile

if TYPE_CHECKING:
    from sensecrypt.crypto.ckks.public import CkksPublicKey
    from sensecrypt.crypto.ckks.secret import CkksSecretKey
    from sensecrypt.crypto.paillier.public import PublicKey
    from sensecrypt.crypto.paillier.secret import SecretKey
    from sensecrypt.crypto.ring.public import RingPublicKey
    from sensecrypt.crypto.ring.secret import RingSecretKey

# For type checkers: a literal profile name gives the concrete key types.
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
RingName = Literal["ring-2048", "ring-2048x4", "ring-2048x16"]


@overload
def generate_keypair(profile: PaillierName) -> tuple[PublicKey, SecretKey]: ...
@overload
def generate_keypair(profile: Literal["ckks-8192"]) -> tuple[CkksPublicKey, CkksSecretKey]: ...
@overload
def generate_keypair(profile: RingName = ...) -> tuple[RingPublicKey, RingSecretKey]: ...
@overload
def generate_keypair(profile: str | Profile) -> tuple[StorablePublicKey, StorableSecretKey]: ...
def generate_keypair(profile: str | Profile = DEFAULT_PROFILE) -> tuple[StorablePublicKey, StorableSecretKey]:
    """Return a fresh key pair: (public, secret).

    Args:
        profile: a name from `sensecrypt.profiles.PROFILES`.
    """
    chosen = get_profile(profile)
    secret: StorableSecretKey = SECRET_SCHEMES[chosen.scheme].generate(chosen)
    return secret.public, secret
