"""Secret keys at rest.

The public part stands in the clear; the secret part is encrypted with AES-256-GCM under a key that scrypt derives from
a passphrase, and everything else in the file is authenticated with it. Only its owner may read the file. How files are
written, and the public part, are in `publicfile`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from sensecrypt.crypto import publicfile
from sensecrypt.crypto.ckks import CkksPublicKey
from sensecrypt.crypto.ckks_secret import CkksSecretKey
from sensecrypt.crypto.scheme import DecryptionKey
from sensecrypt.crypto.secret import SecretKey
from sensecrypt.errors import KeyFileError
from sensecrypt.profiles import Profile

AnySecretKey = SecretKey | CkksSecretKey

SCRYPT = {"n": 2**17, "r": 8, "p": 1}  # 128 MB and about half a second (RFC 7914; OWASP's recommendation)
_MAX_MEMORY, _MAX_R, _MAX_P = 256 * 2**20, 16, 4  # a file must not take its reader's memory or time
MIN_PASSPHRASE = 8


def write_secret(path: Path | str, key: DecryptionKey, passphrase: str, *, force: bool = False) -> None:
    """Write a key pair, its secret part encrypted under `passphrase`."""
    if not isinstance(key, (SecretKey, CkksSecretKey)):
        raise KeyFileError("key", f"is a {type(key).__name__}", "pass a secret key of this package")
    _phrase_bytes(passphrase)
    publicfile.refuse_existing(path, force)
    fields = {"format": publicfile.SECRET_FORMAT, "version": publicfile.VERSION, **publicfile.public_fields(key.public)}
    publicfile.write_fields(path, sealed(fields, _secret_bytes(key), passphrase), mode=0o600, force=force)


def read_secret(path: Path | str, passphrase: str) -> AnySecretKey:
    """The secret key of a secret key file."""
    _phrase_bytes(passphrase)
    fields = publicfile.read_fields(path)
    if fields.get("format") != publicfile.SECRET_FORMAT:
        raise KeyFileError(str(path), "holds no secret key", "pass the file that `sensecrypt keys generate` wrote")
    secret = unsealed(path, fields, passphrase)
    return _secret_key(path, publicfile.public_key(path, fields), secret)


# The next two are for other files of secrets, too.


def sealed(fields: dict[str, Any], secret: bytes, passphrase: str) -> dict[str, Any]:
    """`fields` in the clear and authenticated, with `secret` encrypted under `passphrase` beside them."""
    phrase = _phrase_bytes(passphrase)
    if len(passphrase) < MIN_PASSPHRASE:
        raise KeyFileError("passphrase", "is too short", f"use at least {MIN_PASSPHRASE} characters")
    salt, nonce = os.urandom(16), os.urandom(12)
    kdf = {"name": "scrypt", **SCRYPT, "salt": salt.hex()}
    fields = {**fields, "kdf": kdf, "cipher": "aes-256-gcm", "nonce": nonce.hex()}
    ciphertext = AESGCM(_derive(phrase, salt, SCRYPT)).encrypt(nonce, secret, _canonical(fields))
    return {**fields, "secret": ciphertext.hex()}


def unsealed(path: Path | str, fields: dict[str, Any], passphrase: str) -> bytes:
    """The inverse of `sealed`: the secret."""
    phrase, fields = _phrase_bytes(passphrase), dict(fields)
    try:
        ciphertext = bytes.fromhex(fields.pop("secret"))
        kdf, nonce = fields["kdf"], bytes.fromhex(fields["nonce"])
        key = _derive(phrase, bytes.fromhex(kdf["salt"]), _checked_cost(kdf))
        authenticated = _canonical(fields)
    except publicfile.DAMAGE:
        raise publicfile.damaged(path) from None
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, authenticated)
    except (InvalidTag, ValueError):
        problem = "cannot be opened"
        raise KeyFileError(str(path), problem, "check the passphrase; if it is right, the file is damaged") from None


def _secret_bytes(key: AnySecretKey) -> bytes:
    if isinstance(key, CkksSecretKey):
        return key.private_context()
    named = zip(_names(key.public.profile), key.primes() + key.alphas(), strict=True)
    return json.dumps({name: f"{prime:x}" for name, prime in named}).encode()


def _secret_key(path: Path | str, public: publicfile.AnyPublicKey, secret: bytes) -> AnySecretKey:
    key: AnySecretKey | None = None
    try:
        if isinstance(public, CkksPublicKey):
            key = CkksSecretKey(secret, public.profile)
        else:
            parts = json.loads(secret)
            p, q, *alphas = (int(parts[name], 16) for name in _names(public.profile))
            key = SecretKey(p, q, public, tuple(alphas))
    except publicfile.DAMAGE:
        pass  # and raise below: as its context, this exception would carry the secret along
    if key is None or key.public != public:
        raise publicfile.damaged(path) from None
    return key


def _names(profile: Profile) -> tuple[str, ...]:
    return ("p", "q", "alpha_p", "alpha_q") if profile.subgroup_bits else ("p", "q")


def _phrase_bytes(passphrase: str) -> bytes:
    if not isinstance(passphrase, str):
        raise KeyFileError("passphrase", f"is a {type(passphrase).__name__}", "pass a str")
    if any("\ud800" <= character <= "\udfff" for character in passphrase):  # an encoding error would hold all of it
        raise KeyFileError("passphrase", "is not valid UTF-8", "write it in UTF-8") from None
    return passphrase.encode()


def _checked_cost(kdf: dict[str, Any]) -> dict[str, int]:
    cost = {name: kdf[name] for name in SCRYPT}
    if any(type(number) is not int for number in cost.values()):
        raise TypeError("a cost is no whole number")
    n, r, p = cost["n"], cost["r"], cost["p"]
    if n < 2 or n & (n - 1) or not 1 <= r <= _MAX_R or not 1 <= p <= _MAX_P or 128 * n * r > _MAX_MEMORY:
        raise ValueError("a cost is out of bounds")
    return cost


def _derive(phrase: bytes, salt: bytes, cost: dict[str, int]) -> bytes:
    return Scrypt(salt=salt, length=32, n=cost["n"], r=cost["r"], p=cost["p"]).derive(phrase)


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
