"""Public keys at rest, and reading and writing of all key files.

A key file is JSON. It is written atomically, and never over an existing file unless requested. The aggregator loads its
key with this module, which does not access the secret part of a file.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from sensecrypt.crypto.scheme import StorablePublicKey
from sensecrypt.crypto.schemes import SCHEMES, scheme_of
from sensecrypt.errors import InvalidInput, KeyFileError
from sensecrypt.profiles import get_profile

PUBLIC_FORMAT, SECRET_FORMAT, VERSION = "sensecrypt-public-key", "sensecrypt-secret-key", 1
MAX_BYTES = 16 * 2**20  # twenty times the largest key file; other files must not exhaust the reader's memory
DAMAGE = (KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError)  # raised by malformed fields
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system without hard links
_NO_FLUSH = (errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)  # a folder that cannot be flushed


def write_public(path: Path | str, key: StorablePublicKey, *, force: bool = False) -> None:
    """Write the public key alone; never replace a secret key, which may be the only copy."""
    refuse_existing(path, force)
    if SECRET_FORMAT.encode() in _old_bytes(path):
        raise KeyFileError(str(path), "holds a secret key, which this would destroy", "choose another name")
    write_fields(path, {"format": PUBLIC_FORMAT, "version": VERSION, **public_fields(key)}, mode=0o644, force=force)


def read_public(path: Path | str) -> StorablePublicKey:
    """Return the public key of a public or a secret key file, without a passphrase."""
    fields = read_fields(path)
    if fields.get("format") not in (PUBLIC_FORMAT, SECRET_FORMAT):
        raise damaged(path)
    return public_key(path, fields)


# The following functions are for `keyfile` and the command line.


def public_fields(key: StorablePublicKey) -> dict[str, Any]:
    """Return the fields that describe a public key in both kinds of file."""
    parts = scheme_of(key).fields(key)
    return {"profile": key.profile.name, "fingerprint": key.fingerprint, "public": parts}


def public_key(path: Path | str, fields: dict[str, Any]) -> StorablePublicKey:
    """Return the public key of checked fields: the inverse of `public_fields`."""
    try:
        profile = get_profile(fields["profile"])
        key: StorablePublicKey = SCHEMES[profile.scheme].parse(fields["public"], profile)
        matches = key.fingerprint == fields["fingerprint"]
    except InvalidInput as error:
        problem = f"holds an unusable key ({error.argument} {error.problem})"
        raise KeyFileError(str(path), problem, error.fix) from None
    except DAMAGE:
        raise damaged(path) from None
    if not matches:
        raise damaged(path)
    return key


def read_fields(path: Path | str) -> dict[str, Any]:
    """Return the fields of a key file of this version."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unusable(path, "read", error) from None
    if len(data) > MAX_BYTES:
        raise KeyFileError(str(path), f"is larger than {MAX_BYTES:,} bytes", "pass a key file")
    try:
        fields = json.loads(data)
    except DAMAGE:
        raise damaged(path) from None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise damaged(path)
    return fields


def write_fields(path: Path | str, fields: dict[str, Any], *, mode: int, force: bool) -> None:
    """Write a key file atomically: a temporary file in the same folder is renamed or, without `force`, hard-linked."""
    refuse_existing(path, force)
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".sensecrypt-")
    except (OSError, ValueError) as error:
        raise _unusable(path, "written", error) from None
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
        raise _exists(path) from None
    except (OSError, ValueError) as error:
        raise _unusable(path, "written", error) from None
    finally:
        temporary.unlink(missing_ok=True)


def refuse_existing(path: Path | str, force: bool) -> None:
    """Raise if the path exists, even as a broken link, and `force` is not set."""
    if os.path.lexists(path) and not force:
        raise _exists(path)


def damaged(path: Path | str) -> KeyFileError:
    """Return the error of an invalid key file. Raise it `from None`: its cause may contain the file's content."""
    return KeyFileError(str(path), "is damaged or no key file of this version", "restore it from a backup")


def _publish(temporary: Path, path: Path, force: bool) -> None:
    """Give the finished file its name; without `force` by a hard link, which fails if the name exists by now."""
    if force:
        temporary.replace(path)
    else:
        try:
            path.hardlink_to(temporary)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _replace_reserved(temporary, path)
    try:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise


def _replace_reserved(temporary: Path, path: Path) -> None:
    """Publish without hard links: create an empty file, which fails if the name exists, and replace it."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        temporary.replace(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _old_bytes(path: Path | str) -> bytes:
    """Return the content to be overwritten. It is searched and not parsed, so that a damaged secret key counts too."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:
        raise _unusable(path, "written", error) from None


def _exists(path: Path | str) -> KeyFileError:
    return KeyFileError(str(path), "exists already", "choose another name, or overwrite it with --force")


def _unusable(path: Path | str, verb: str, error: OSError | ValueError) -> KeyFileError:
    reason = error.strerror if isinstance(error, OSError) else error
    return KeyFileError(str(path), f"cannot be {verb} ({reason})", "check the path, its permissions and the free space")
