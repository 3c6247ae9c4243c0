"""A client's environment in a run: settings, model, data, key and randomness.

A run's seed is public. If batches depended on it, two runs with the same settings would train the same. So a client of
a fleet draws its batches from the operating system's randomness.
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
    """The environment that all clients of a run share: forked processes inherit it, and it is never sent.

    Attributes:
        config: the run's configuration.
        build: returns a new model.
        data: every client's data, in a fleet only this client's; a mapping may load them on demand.
        key: the key that encrypts; it is secret only if clients share it.
        cache: folder of training results that other runs reuse; None: no cache.
        always: parameters that are always encrypted, by policies that heed it.
        recipe: how models train.
        blinded: whether the parameters that clients do not encrypt are blinded.
        layers: names and sizes of the model's tensors, to report how much of each is encrypted; None in a fleet, where
            the aggregator must not learn the positions of layers in the secret order.
        discreet: whether facts go to the aggregator, and so must not depend on the client's own data.
        local: whether training uses this machine's randomness instead of the run's seed.
        weights: numbers used as every client's number of samples; None: the real numbers.
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
        """Return the seed of one purpose, round and client, from the run's seed or, with `local`, at random."""
        return secrets.randbits(_BITS) if self.local else derive_seed(self.config.problem.seed, purpose, *path)

    def own(self, client: int) -> ClientData:
        """Return a client's data."""
        return as_data(self.data[client], f"clients[{client}]")

    def samples(self, client: int) -> int:
        """Return the number of samples that a client counts as."""
        return self.own(client).samples if self.weights is None else self.weights[client]

    def pair(self, client: int, why: str) -> Pair:
        """Return a client's data as inputs and labels, for methods that process single samples."""
        pair = self.own(client).pair
        if pair is None:
            raise no_pair(client, why)
        return pair

    def model(self, vector: Vector) -> nn.Module:
        """Return a model with these parameters, on the device of the recipe."""
        model = self.build()
        set_vector(model, vector)
        return model.to(self.recipe.device)


def no_pair(client: int, why: str) -> InvalidInput:
    """Return the error for data that are not two tensors, in a method that needs them."""
    fix = "pass each client's data as two tensors, or choose another setting"
    return InvalidInput(f"clients[{client}]", f"has no inputs and labels, which {why} needs", fix)
