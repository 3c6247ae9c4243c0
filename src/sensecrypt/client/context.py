"""What a client works with in a run, besides its messages: settings, model, data, key, randomness.

A run's seed is public. Whoever knows it knows a client's batches, and two runs of the same settings train the same. So
a client of a fleet draws from the operating system.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt.client.training import Fit
from sensecrypt.config import RunConfig
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey
from sensecrypt.models import set_vector
from sensecrypt.policies import get_policy
from sensecrypt.policies.policy import Policy
from sensecrypt.rng import derive_seed
from sensecrypt.types import BoolVector

_BITS = 63


def training_seed(seed: int, purpose: str, *path: int, local: bool) -> int:
    """The seed for one purpose: derived from the run's, or fresh from the operating system if `local`."""
    return secrets.randbits(_BITS) if local else derive_seed(seed, purpose, *path)


def stir() -> None:
    """Seed PyTorch's global generator by the operating system: dropout draws from it, and some models seed it."""
    torch.manual_seed(secrets.randbits(_BITS))


Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ClientContext:
    """What all clients of a run have: forked processes inherit it, it is never sent.

    Attributes:
        config: of the run.
        build: makes a fresh model.
        data: images and labels of every client, or in a fleet of the one that is here.
        key: the key to encrypt with; the secret one only where clients share it.
        cache: where training results are kept for other runs, if anywhere.
        always: parameters that are encrypted whatever their sensitivity, by policies that heed it.
        fit: trains a model in place of stochastic gradient descent as configured.
        blinded: whether what clients do not encrypt is blinded.
        layers: names and sizes of the model's tensors, to report how much of each is encrypted; None in a fleet, where
            the aggregator is not to learn where the secret order puts a layer.
        discreet: whether facts go to the aggregator, and so tell nothing that follows from the client's own data.
        local: whether training draws from this machine's randomness, not from the run's seed.
    """

    config: RunConfig
    build: Callable[[], nn.Module]
    data: Mapping[int, tuple[torch.Tensor, torch.Tensor]]
    key: EncryptionKey | DecryptionKey
    cache: Path | None = None
    always: BoolVector | None = None
    fit: Fit | None = None
    blinded: bool = True
    layers: Mapping[str, int] | None = None
    discreet: bool = False
    local: bool = False

    @property
    def policy(self) -> Policy:
        """Who encrypts what."""
        return get_policy(self.config.selection.policy)

    def seed(self, purpose: str, *path: int) -> int:
        """The seed of what is drawn for one purpose, round and client."""
        return training_seed(self.config.problem.seed, purpose, *path, local=self.local)

    def model(self, vector: Vector) -> nn.Module:
        """A model with these parameters."""
        model = self.build()
        set_vector(model, vector)
        return model
