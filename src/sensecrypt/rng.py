"""Seeds for everything that experiments draw, derived from (seed, purpose, round, client): never from a global state.

Not for keys, ciphertexts or privacy noise: these come from the operating system.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, purpose: str, *path: int) -> int:
    """A 63-bit seed that is different for every purpose and path."""
    text = ":".join(["sensecrypt", str(seed), purpose, *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def derive_rng(seed: int, purpose: str, *path: int) -> np.random.Generator:
    """A generator of its own for every purpose and path."""
    return np.random.default_rng(derive_seed(seed, purpose, *path))
