"""Secret keys at rest.

The public part stands in the clear; the secret part is encrypted under a passphrase (`passphrase`), and everything else
in the file is authenticated with it. Only its owner may read the file. How files are written, and the public part, are
in `publicfile`.
"""

from __future__ import annotations

import json
from pathlib import Path

from sensecrypt.crypto import publicfile
from sensecrypt.crypto.ckks import CkksPublicKey
from sensecrypt.crypto.ckks_secret import CkksSecretKey
from sensecrypt.crypto.passphrase import phrase_bytes, sealed, unsealed
from sensecrypt.crypto.scheme import DecryptionKey
from sensecrypt.crypto.secret import SecretKey
from sensecrypt.errors import KeyFileError
from sensecrypt.profiles import Profile

AnySecretKey = SecretKey | CkksSecretKey


def write_secret(path: Path | str, key: DecryptionKey, passphrase: str, *, force: bool = False) -> None:
    """Write a key pair, its secret part encrypted under `passphrase`."""
    if not isinstance(key, (SecretKey, CkksSecretKey)):
        raise KeyFileError("key", f"is a {type(key).__name__}", "pass a secret key of this package")
    phrase_bytes(passphrase)
    publicfile.refuse_existing(path, force)
    fields = {"format": publicfile.SECRET_FORMAT, "version": publicfile.VERSION, **publicfile.public_fields(key.public)}
    publicfile.write_fields(path, sealed(fields, _secret_bytes(key), passphrase), mode=0o600, force=force)


def read_secret(path: Path | str, passphrase: str) -> AnySecretKey:
    """The secret key of a secret key file."""
    phrase_bytes(passphrase)
    fields = publicfile.read_fields(path)
    if fields.get("format") != publicfile.SECRET_FORMAT:
        raise KeyFileError(str(path), "holds no secret key", "pass the file that `sensecrypt keys generate` wrote")
    secret = unsealed(path, fields, passphrase)
    return _secret_key(path, publicfile.public_key(path, fields), secret)


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
