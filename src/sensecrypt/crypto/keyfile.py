"""Secret keys at rest.

The public part is stored in the clear. The secret part is encrypted under a passphrase (`passphrase`), which also
authenticates the rest of the file. Only its owner may read the file. `publicfile` writes files and the public part.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sensecrypt.crypto import publicfile
from sensecrypt.crypto.passphrase import decrypted_at_rest, encrypted_at_rest, phrase_bytes
from sensecrypt.crypto.scheme import StorablePublicKey, StorableSecretKey
from sensecrypt.crypto.secretschemes import SECRET_SCHEMES, secret_scheme_of
from sensecrypt.errors import KeyFileError


def write_secret(path: Path | str, key: StorableSecretKey, passphrase: str, *, force: bool = False) -> None:
    """Write a key pair, its secret part encrypted under `passphrase`."""
    secret_scheme_of(key)  # raises first of all if `key` is not a secret key
    phrase_bytes(passphrase)
    publicfile.refuse_existing(path, force)
    fields = {"format": publicfile.SECRET_FORMAT, "version": publicfile.VERSION, **publicfile.public_fields(key.public)}
    publicfile.write_fields(path, encrypted_at_rest(fields, _secret_bytes(key), passphrase), mode=0o600, force=force)


def read_secret(path: Path | str, passphrase: str) -> StorableSecretKey:
    """Return the secret key of a secret key file."""
    phrase_bytes(passphrase)
    fields = publicfile.read_fields(path)
    if fields.get("format") != publicfile.SECRET_FORMAT:
        raise KeyFileError(str(path), "holds no secret key", "pass the file that `sensecrypt keys generate` wrote")
    secret = decrypted_at_rest(path, fields, passphrase)
    return _secret_key(path, publicfile.public_key(path, fields), secret)


def _secret_bytes(key: StorableSecretKey) -> bytes:
    return secret_scheme_of(key).serialize(key)


def _secret_key(path: Path | str, public: StorablePublicKey, secret: bytes) -> StorableSecretKey:
    key: StorableSecretKey | None = None
    with suppress(*publicfile.DAMAGE):  # raise below instead: the exception's context could contain the secret
        key = SECRET_SCHEMES[public.profile.scheme].parse(secret, public)
    if key is None or key.public != public:
        raise publicfile.damaged(path) from None
    return key
