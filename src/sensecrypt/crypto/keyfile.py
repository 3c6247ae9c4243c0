"""Keys at rest.

A key file is JSON. The public part stands in the clear; the secret part is encrypted with AES-256-GCM under a key that
scrypt derives from a passphrase, and everything else in the file is authenticated with it. Files are written whole or
not at all, secret ones readable by their owner only, and never over an existing file unless asked to.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from sensecrypt.crypto.ckks import CkksPublicKey
from sensecrypt.crypto.ckks_secret import CkksSecretKey
from sensecrypt.crypto.paillier import PublicKey
from sensecrypt.crypto.scheme import DecryptionKey
from sensecrypt.crypto.secret import SecretKey
from sensecrypt.errors import InvalidInput, KeyFileError
from sensecrypt.profiles import get_profile

AnyPublicKey = PublicKey | CkksPublicKey
AnySecretKey = SecretKey | CkksSecretKey

PUBLIC_FORMAT, SECRET_FORMAT, VERSION = "sensecrypt-public-key", "sensecrypt-secret-key", 1
SCRYPT = {"n": 2**17, "r": 8, "p": 1}  # 128 MB and about half a second (RFC 7914; OWASP's recommendation)
_SCRYPT_LIMIT = {"n": 2**20, "r": 16, "p": 4}  # a file must not make its reader run out of memory
MIN_PASSPHRASE = 8


def write_public(path: Path, key: AnyPublicKey, *, force: bool = False) -> None:
    """Write the public key alone."""
    _write(path, {"format": PUBLIC_FORMAT, "version": VERSION, **_public_fields(key)}, mode=0o644, force=force)


def write_secret(path: Path, key: DecryptionKey, passphrase: str, *, force: bool = False) -> None:
    """Write a key pair, its secret part encrypted under `passphrase`."""
    if not isinstance(key, (SecretKey, CkksSecretKey)):
        raise KeyFileError("key", f"is a {type(key).__name__}", "pass a secret key of this package")
    if len(passphrase) < MIN_PASSPHRASE:
        raise KeyFileError("passphrase", "is too short", f"use at least {MIN_PASSPHRASE} characters")
    _refuse_existing(path, force)
    salt, nonce = os.urandom(16), os.urandom(12)
    fields = {"format": SECRET_FORMAT, "version": VERSION, **_public_fields(key.public)}
    fields |= {"kdf": {"name": "scrypt", **SCRYPT, "salt": salt.hex()}, "cipher": "aes-256-gcm", "nonce": nonce.hex()}
    sealed = AESGCM(_derive(passphrase, salt, SCRYPT)).encrypt(nonce, _secret_bytes(key), _canonical(fields))
    _write(path, {**fields, "secret": sealed.hex()}, mode=0o600, force=force)


def read_public(path: Path) -> AnyPublicKey:
    """The public key of a public or a secret key file; no passphrase is needed."""
    fields = _read(path)
    if fields.get("format") not in (PUBLIC_FORMAT, SECRET_FORMAT):
        raise _damaged(path)
    return _public_key(path, fields)


def read_secret(path: Path, passphrase: str) -> AnySecretKey:
    """The secret key of a secret key file."""
    fields = _read(path)
    if fields.get("format") != SECRET_FORMAT:
        raise KeyFileError(str(path), "holds no secret key", "pass the file that `sensecrypt keys generate` wrote")
    try:
        sealed = bytes.fromhex(fields.pop("secret"))
        kdf, nonce = fields["kdf"], bytes.fromhex(fields["nonce"])
        cost = {name: int(kdf[name]) for name in SCRYPT}
        salt = bytes.fromhex(kdf["salt"])
        if any(not 1 <= cost[name] <= limit for name, limit in _SCRYPT_LIMIT.items()):
            raise ValueError("cost out of bounds")
        key = _derive(passphrase, salt, cost)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error
    try:
        secret = AESGCM(key).decrypt(nonce, sealed, _canonical(fields))
    except (InvalidTag, ValueError):
        problem = "cannot be opened"
        raise KeyFileError(str(path), problem, "check the passphrase; if it is right, the file is damaged") from None
    return _secret_key(_public_key(path, fields), secret)


def _public_fields(key: AnyPublicKey) -> dict[str, Any]:
    parts = {"context": key.context.hex()} if isinstance(key, CkksPublicKey) else {"n": f"{key.n:x}", "h": f"{key.h:x}"}
    return {"profile": key.profile.name, "fingerprint": key.fingerprint, "public": parts}


def _public_key(path: Path, fields: dict[str, Any]) -> AnyPublicKey:
    try:
        profile, parts = get_profile(fields["profile"]), fields["public"]
        key: AnyPublicKey
        if profile.scheme == "ckks":
            key = CkksPublicKey(bytes.fromhex(parts["context"]), profile)
        else:
            key = PublicKey(int(parts["n"], 16), int(parts["h"], 16), profile)
        matches = key.fingerprint == fields["fingerprint"]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise KeyFileError(
                str(path), f"holds an unusable key ({error.argument} {error.problem})", error.fix
            ) from None
        raise _damaged(path) from error
    if not matches:
        raise _damaged(path)
    return key


def _secret_bytes(key: AnySecretKey) -> bytes:
    if isinstance(key, CkksSecretKey):
        return key.private_context()
    p, q = key.primes()
    return json.dumps({"p": f"{p:x}", "q": f"{q:x}"}).encode()


def _secret_key(public: AnyPublicKey, secret: bytes) -> AnySecretKey:
    if isinstance(public, CkksPublicKey):
        return CkksSecretKey(secret, public.profile)
    primes = json.loads(secret)
    return SecretKey(int(primes["p"], 16), int(primes["q"], 16), public)


def _derive(passphrase: str, salt: bytes, cost: dict[str, int]) -> bytes:
    return Scrypt(salt=salt, length=32, n=cost["n"], r=cost["r"], p=cost["p"]).derive(passphrase.encode())


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _read(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text())
    except OSError as error:
        raise KeyFileError(str(path), f"cannot be read ({error.strerror})", "check the path") from None
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise _damaged(path)
    return fields


def _write(path: Path, fields: dict[str, Any], *, mode: int, force: bool) -> None:
    """Atomically: a temporary file beside it, flushed, then renamed or, without `force`, linked."""
    _refuse_existing(path, force)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise KeyFileError(str(path), f"cannot be written ({error.strerror})", "choose a writable folder") from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            os.fchmod(file.fileno(), mode)
            json.dump(fields, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        _publish(temporary, path, force)
    except FileExistsError:
        _refuse_existing(path, force)
    except OSError as error:
        raise KeyFileError(str(path), f"cannot be written ({error.strerror})", "free some space") from None
    finally:
        temporary.unlink(missing_ok=True)


def _publish(temporary: Path, path: Path, force: bool) -> None:
    """Give the finished file its name; without `force` a link, which fails if somebody else was faster."""
    if not force:
        try:
            path.hardlink_to(temporary)
            return
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):  # a file system without hard links
                raise
    temporary.replace(path)


def _refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise KeyFileError(str(path), "exists already", "choose another name, or overwrite it with --force")


def _damaged(path: Path) -> KeyFileError:
    return KeyFileError(str(path), "is damaged or no key file of this version", "restore it from a backup")
