"""What a client's training draws from: a run's seed on one machine, the operating system in a fleet.

A run's seed is public. Whoever knows it knows a client's batches, and two runs of the same settings train the same.
"""

from __future__ import annotations

import secrets

import torch

from sensecrypt.rng import derive_seed

_BITS = 63


def training_seed(seed: int, purpose: str, *path: int, local: bool) -> int:
    """The seed for one purpose: derived from the run's, or fresh from the operating system if `local`."""
    return secrets.randbits(_BITS) if local else derive_seed(seed, purpose, *path)


def stir() -> None:
    """Seed PyTorch's global generator by the operating system: dropout draws from it, and some models seed it."""
    torch.manual_seed(secrets.randbits(_BITS))
