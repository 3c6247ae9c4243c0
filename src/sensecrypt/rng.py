"""Seeds of all random choices in experiments, derived from (seed, purpose, round, client) without global state.

Keys, ciphertexts and privacy noise do not use them: their randomness comes from the operating system.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, purpose: str, *path: int) -> int:
    """Return a 63-bit seed that differs for every purpose and path."""
    text = ":".join(["sensecrypt", str(seed), purpose, *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def derive_rng(seed: int, purpose: str, *path: int) -> np.random.Generator:
    """Return a generator that differs for every purpose and path."""
    return np.random.default_rng(derive_seed(seed, purpose, *path))
