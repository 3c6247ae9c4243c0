"""Encrypts secrets in files under a passphrase.

The secret, any bytes, is encrypted with AES-256-GCM under a key that scrypt derives from the passphrase. The other
fields of the file are authenticated with it.
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
from sensecrypt.errors import KeyFileError

SCRYPT = {"n": 2**17, "r": 8, "p": 1}  # 128 MB and about half a second (RFC 7914; OWASP's recommendation)
_MAX_MEMORY, _MAX_R, _MAX_P = 256 * 2**20, 16, 4  # a forged file must not exhaust its reader's memory or time
MIN_PASSPHRASE = 8


def encrypted_at_rest(fields: dict[str, Any], secret: bytes, passphrase: str) -> dict[str, Any]:
    """Return `fields`, in the clear and authenticated, together with `secret` encrypted under `passphrase`."""
    phrase = phrase_bytes(passphrase)
    if len(passphrase) < MIN_PASSPHRASE:
        raise KeyFileError("passphrase", "is too short", f"use at least {MIN_PASSPHRASE} characters")
    salt, nonce = os.urandom(16), os.urandom(12)
    kdf = {"name": "scrypt", **SCRYPT, "salt": salt.hex()}
    fields = {**fields, "kdf": kdf, "cipher": "aes-256-gcm", "nonce": nonce.hex()}
    ciphertext = AESGCM(_derive(phrase, salt, SCRYPT)).encrypt(nonce, secret, _canonical(fields))
    return {**fields, "secret": ciphertext.hex()}


def decrypted_at_rest(path: Path | str, fields: dict[str, Any], passphrase: str) -> bytes:
    """Return the secret in `fields`: the inverse of `encrypted_at_rest`."""
    phrase, fields = phrase_bytes(passphrase), dict(fields)
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
        problem = "cannot be decrypted"
        raise KeyFileError(str(path), problem, "check the passphrase; if it is right, the file is damaged") from None


def phrase_bytes(passphrase: str) -> bytes:
    """Return the passphrase in UTF-8; errors do not contain it."""
    if not isinstance(passphrase, str):
        raise KeyFileError("passphrase", f"is a {type(passphrase).__name__}", "pass a str")
    if any("\ud800" <= character <= "\udfff" for character in passphrase):  # an encoding error would contain it
        raise KeyFileError("passphrase", "is not valid UTF-8", "write it in UTF-8") from None
    return passphrase.encode()


def _checked_cost(kdf: dict[str, Any]) -> dict[str, int]:
    cost = {name: kdf[name] for name in SCRYPT}
    if any(type(number) is not int for number in cost.values()):
        raise TypeError("a cost is not an integer")
    n, r, p = cost["n"], cost["r"], cost["p"]
    if n < 2 or n & (n - 1) or not 1 <= r <= _MAX_R or not 1 <= p <= _MAX_P or 128 * n * r > _MAX_MEMORY:
        raise ValueError("a cost is out of bounds")
    return cost


def _derive(phrase: bytes, salt: bytes, cost: dict[str, int]) -> bytes:
    return Scrypt(salt=salt, length=32, n=cost["n"], r=cost["r"], p=cost["p"]).derive(phrase)


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
