"""What a client works with in a run, besides its messages: settings, model, data, key, randomness.

A run's seed is public. Whoever knows it knows a client's batches, and two runs of the same settings train the same. So
a client of a fleet draws from the operating system.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sensecrypt.client.data import ClientData, Pair, as_data
from sensecrypt.client.training import PLAIN, Recipe
from sensecrypt.config import RunConfig
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey
from sensecrypt.errors import InvalidInput
from sensecrypt.models import set_vector
from sensecrypt.rng import derive_seed
from sensecrypt.types import BoolVector

_BITS = 63


Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ClientContext:
    """What all clients of a run have: forked processes inherit it, it is never sent.

    Attributes:
        config: of the run.
        build: makes a fresh model.
        data: of every client, or in a fleet of the one that is here; what loads it on demand is a mapping, too.
        key: the key to encrypt with; the secret one only where clients share it.
        cache: where training results are kept for other runs, if anywhere.
        always: parameters that are encrypted whatever their sensitivity, by policies that heed it.
        recipe: how models train.
        blinded: whether what clients do not encrypt is blinded.
        layers: names and sizes of the model's tensors, to report how much of each is encrypted; None in a fleet, where
            the aggregator is not to learn where the secret order puts a layer.
        discreet: whether facts go to the aggregator, and so tell nothing that follows from the client's own data.
        local: whether training draws from this machine's randomness, not from the run's seed.
        weights: what counts as every client's number of samples; None: what they have.
    """

    config: RunConfig
    build: Callable[[], nn.Module]
    data: Mapping[int, Any] | Sequence[Any]
    key: EncryptionKey | DecryptionKey
    cache: Path | None = None
    always: BoolVector | None = None
    recipe: Recipe = PLAIN
    blinded: bool = True
    layers: Mapping[str, int] | None = None
    discreet: bool = False
    local: bool = False
    weights: Sequence[int] | None = None

    def seed(self, purpose: str, *path: int) -> int:
        """The seed for one purpose, round and client: from the run's, or with `local` from the operating system."""
        return secrets.randbits(_BITS) if self.local else derive_seed(self.config.problem.seed, purpose, *path)

    def own(self, client: int) -> ClientData:
        """A client's data."""
        return as_data(self.data[client], f"clients[{client}]")

    def samples(self, client: int) -> int:
        """What counts as a client's number of samples."""
        return self.own(client).samples if self.weights is None else self.weights[client]

    def pair(self, client: int, why: str) -> Pair:
        """A client's data as inputs and labels, for methods that take samples one by one."""
        pair = self.own(client).pair
        if pair is None:
            raise no_pair(client, why)
        return pair

    def model(self, vector: Vector) -> nn.Module:
        """A model with these parameters, where models train."""
        model = self.build()
        set_vector(model, vector)
        return model.to(self.recipe.device)


def no_pair(client: int, why: str) -> InvalidInput:
    """What is wrong with data that are not two tensors, for a method that needs them."""
    fix = "pass each client's data as two tensors, or choose another setting"
    return InvalidInput(f"clients[{client}]", f"has no inputs and labels, which {why} needs", fix)
