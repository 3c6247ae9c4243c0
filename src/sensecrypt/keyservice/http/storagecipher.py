"""Encryption of secrets in the database, and the file with the root of its key.

The root is 32 random bytes. The seeds that clients receive are derived from it, and so is the key that encrypts orders,
tags and models in the database (AES-256-GCM, each bound to its place). The root's file is encrypted under the
passphrase, like key files.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sensecrypt.crypto import passphrase as passphrases
from sensecrypt.crypto import publicfile
from sensecrypt.errors import KeyFileError, ServiceError

FORMAT, VERSION = "sensecrypt-dkms-root", 1
_NONCE_BYTES = 12


def create_root(path: Path, passphrase: str) -> bytes:
    """Draw a new root and write it to `path`."""
    root = secrets.token_bytes(32)
    fields = passphrases.encrypted_at_rest({"format": FORMAT, "version": VERSION}, root, passphrase)
    publicfile.write_fields(path, fields, mode=0o600, force=False)
    return root


def read_root(path: Path, passphrase: str) -> bytes:
    """The root in that file."""
    fields = publicfile.read_fields(path)
    if fields.get("format") != FORMAT:
        raise KeyFileError(str(path), "holds no root of a key service", "pass the folder that `dkms init` made")
    return passphrases.decrypted_at_rest(path, fields, passphrase)


class StorageCipher:
    """Encrypts values of the database, under a key derived from the root."""

    def __init__(self, root: bytes) -> None:
        self._cipher = AESGCM(hmac.digest(root, b"database", "sha256"))

    def encrypt(self, data: bytes, *place: str | int) -> bytes:
        """A ciphertext that can be decrypted with the same `place` only."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, _label(place))

    def decrypt(self, data: bytes, *place: str | int) -> bytes:
        """The plaintext; raises if the ciphertext was made for another place."""
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _label(place))
        except (InvalidTag, ValueError):
            raise ServiceError("the database", "was altered from outside", "restore it from a backup") from None


def _label(place: tuple[str | int, ...]) -> bytes:
    return "\x00".join(map(str, place)).encode()
