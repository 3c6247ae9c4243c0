"""What a client's training draws from: a run's seed on one machine, the operating system in a fleet.

A run's seed is public. Whoever knows it knows a client's batches, and two runs of the same settings train the same.
"""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Iterator

import numpy as np
import torch

from sensecrypt.rng import derive_seed

_BITS = 63


def training_seed(seed: int, purpose: str, *path: int, local: bool) -> int:
    """The seed for one purpose: derived from the run's, or fresh from the operating system if `local`."""
    return secrets.randbits(_BITS) if local else derive_seed(seed, purpose, *path)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators that code of others draws from, dropout and augmentation; afterwards they are as before."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (what transforms of others use)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
