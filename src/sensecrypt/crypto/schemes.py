"""The public sides of all schemes by name. The aggregator's code may import this module, but not `secretschemes`."""

from __future__ import annotations

from typing import Any

from sensecrypt.crypto.ckks import public as ckks
from sensecrypt.crypto.paillier import public as paillier
from sensecrypt.crypto.ring import public as ring
from sensecrypt.crypto.scheme import PublicScheme
from sensecrypt.errors import KeyFileError

SCHEMES: dict[str, PublicScheme[Any]] = {
    "paillier": paillier.SCHEME,
    "ckks": ckks.SCHEME,
    "ring": ring.SCHEME,
}


def scheme_of(key: object) -> PublicScheme[Any]:
    """Return the scheme of a public key; raise if `key` is not one."""
    for scheme in SCHEMES.values():
        if isinstance(key, scheme.key):
            return scheme
    raise KeyFileError("key", f"is a {type(key).__name__}", "pass a public key of this package")
