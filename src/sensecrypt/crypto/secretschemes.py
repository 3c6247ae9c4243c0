"""The secret sides of all schemes by name. The aggregator's code must not import this module."""

from __future__ import annotations

from typing import Any

from sensecrypt.crypto.ckks import secret as ckks
from sensecrypt.crypto.paillier import secret as paillier
from sensecrypt.crypto.ring import secret as ring
from sensecrypt.crypto.scheme import SecretScheme
from sensecrypt.errors import KeyFileError

SECRET_SCHEMES: dict[str, SecretScheme[Any, Any]] = {
    "paillier": paillier.SCHEME,
    "ckks": ckks.SCHEME,
    "ring": ring.SCHEME,
}


def secret_scheme_of(key: object) -> SecretScheme[Any, Any]:
    """Return the scheme of a secret key; raise if `key` is not one."""
    for scheme in SECRET_SCHEMES.values():
        if isinstance(key, scheme.key):
            return scheme
    raise KeyFileError("key", f"is a {type(key).__name__}", "pass a secret key of this package")
