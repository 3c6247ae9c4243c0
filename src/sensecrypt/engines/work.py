"""What one client does, in whatever process it is played: train, score, choose, seal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.algo.sketching import sketch
from sensecrypt.config import RunConfig
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey
from sensecrypt.engines.training import mean_gradient, train
from sensecrypt.errors import SenseCryptError
from sensecrypt.models import set_vector
from sensecrypt.policies import get_policy
from sensecrypt.policies.situation import Situation
from sensecrypt.protocol.client import Sealed, seal_model, seal_sensitivity
from sensecrypt.protocol.round import Round
from sensecrypt.rng import derive_seed

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class World:
    """What all clients of a run have: forked processes inherit it, it is never sent.

    Attributes:
        config: of the run.
        build: makes a fresh model.
        data: images and labels of every client.
        key: the key to encrypt with; the secret one only where clients share it.
    """

    config: RunConfig
    build: Callable[[], nn.Module]
    data: list[tuple[torch.Tensor, torch.Tensor]]
    key: EncryptionKey | DecryptionKey


@dataclass(frozen=True, eq=False)
class Task:
    """One client's part in one round.

    Attributes:
        client: who.
        round: the round.
        vector: the cluster's model.
        order: the cluster's order of the parameters, in the prefix layout.
        budget: α.
        receipt_seed: of the round.
        refresh: the round of sensitivities that follows, and its receipt seed, when the order is to be made anew.
    """

    client: int
    round: Round
    vector: Vector
    order: checks.IntVector | None
    budget: float
    receipt_seed: bytes
    refresh: tuple[Round, bytes] | None


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a task: messages and facts, or why there are none."""

    client: int
    model: Sealed | None = None
    sensitivity: Sealed | None = None
    facts: dict[str, float | int | str | bool | None] | None = None
    failure: str | None = None


def describe_data(world: World, client: int, vector: Vector, sketch_seed: bytes | None) -> checks.FloatVector:
    """A client's sensitivities at `vector` for clustering: sketched with the seed, or in the clear without one."""
    gains = _sensitivity(world, client, vector)
    return gains if sketch_seed is None else sketch(gains, seed=sketch_seed)


def seal_initial_sensitivity(world: World, client: int, vector: Vector, round_: Round, seed: bytes) -> Done:
    """A client's sensitivities at the initial model, encrypted, for the cluster's first order."""
    try:
        gains = _sensitivity(world, client, vector)
        return Done(client, sensitivity=seal_sensitivity(gains, round_, client=client, key=world.key, seed=seed))
    except SenseCryptError as error:
        return Done(client, failure=str(error))


def play_round(world: World, task: Task) -> Done:
    """Train, score, choose, encrypt; a failure of this client is told, not raised."""
    try:
        return _play(world, task)
    except SenseCryptError as error:
        return Done(task.client, failure=str(error))


def _play(world: World, task: Task) -> Done:
    config, client = world.config, task.client
    images, labels = world.data[client]
    clock = _Clock()
    model = world.build()
    set_vector(model, task.vector)
    weights = train(
        model,
        images,
        labels,
        epochs=config.local_epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        momentum=config.momentum,
        seed=derive_seed(config.seed, "batches", task.round.number, client),
    )
    clock.lap("train_seconds")
    gains = sensitivity(weights, mean_gradient(model, images, labels)).astype(np.float64)
    clock.lap("sensitivity_seconds")
    choice = get_policy(config.policy)(
        Situation(
            weights=weights,
            sensitivity=gains,
            budget=task.budget,
            block=task.round.block,
            order=task.order,
            B=config.B,
            C=config.C,
            max_mi=config.max_mi if config.max_mi >= 0 else None,
            objective=config.objective,
            on_infeasible=config.on_infeasible,
        )
    )
    clock.lap("select_seconds")
    sealed = seal_model(weights, choice.mask, task.round, client=client, key=world.key, seed=task.receipt_seed)
    clock.lap("encrypt_seconds")
    refreshed = None
    if task.refresh is not None:
        refreshed = seal_sensitivity(gains, task.refresh[0], client=client, key=world.key, seed=task.refresh[1])
        clock.lap("order_seconds")
    return Done(
        client,
        sealed,
        refreshed,
        {
            **clock.laps,
            "bytes_up": len(sealed.upload) + (len(refreshed.upload) if refreshed else 0),
            "encrypted_share": choice.mask.share,
            "encrypted_blocks": choice.mask.blocks,
            "coverage": choice.mask.coverage(gains),
            "mi": choice.mi,
            "budget": task.budget,
            "decided_by": choice.decided_by,
            "feasible": choice.feasible,
        },
    )


def _sensitivity(world: World, client: int, vector: Vector) -> checks.FloatVector:
    model = world.build()
    set_vector(model, vector)
    gradient = mean_gradient(model, *world.data[client])
    return sensitivity(vector, gradient).astype(np.float64)


class _Clock:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float | int | str | bool | None] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now
