"""Clients of one round whose data is known: they start from one model, and each has its own samples.

`synthetic_client` draws a client with a model of its own instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.checks import IntVector
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.observation import Observation, Samples
from sensecrypt.lab.attacks.synthetic import SyntheticClient, client_with
from sensecrypt.models import get_vector, mean_gradient, set_vector

Model = npt.NDArray[np.float32]


def client_of_round(
    build: Callable[[], nn.Module],
    before: Model,
    data: Samples,
    *,
    classes: int,
    learning_rate: float,
    public: Samples | None = None,
) -> SyntheticClient:
    """A client after one step on its whole batch `data`, so that its upload gives the batch's mean gradient.

    The round starts from `before`, in the network that `build` makes. `public` are labelled samples of the adversary,
    none of them a client's.
    """
    network = build().eval()
    set_vector(network, before)
    gradient = mean_gradient(network, *data).astype(np.float64)
    seen = Observation(
        build=build,
        before=before,
        gradient=gradient,
        samples=len(data[1]),
        classes=classes,
        public=public,
        image_shape=tuple(data[0].shape[1:]),
    )
    weights = (before - learning_rate * gradient).astype(np.float32)
    nothing = np.zeros_like(gradient)
    return client_with(seen, data, weights, at_before=gradient, last_upload=nothing, scale=learning_rate)


def after_local_steps(
    network: nn.Module,
    before: Model,
    data: Samples,
    *,
    steps: int,
    batch: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> Model:
    """A client's model after gradient steps on batches of its data, in shuffled passes over it.

    `network` only computes: its weights are overwritten, with those of `before` first.
    """
    checks.whole("steps", steps, low=1)
    set_vector(network, before)
    network.eval()
    parameters = list(network.parameters())
    waiting = np.empty(0, dtype=np.int64)
    for _ in range(steps):
        if waiting.size == 0:
            waiting = rng.permutation(len(data[1]))
        chosen, waiting = torch.from_numpy(waiting[:batch]), waiting[batch:]
        loss = nn.functional.cross_entropy(network(data[0][chosen]), data[1][chosen])
        with torch.no_grad():
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.sub_(learning_rate * gradient)
    return get_vector(network)


def mean_model(models: Sequence[Model], samples: Sequence[int]) -> Model:
    """FedAvg: the mean of the clients' models, weighted by how many samples each has."""
    if not models or len(models) != len(samples):
        raise InvalidInput("samples", f"are {len(samples)} of {len(models)} models", "pass one number per model")
    return np.average(models, axis=0, weights=samples).astype(np.float32)


def own_classes(client: int, k: int, classes: int) -> list[int]:
    """The client's k classes, as `data.classes_per_client` assigns them: from client · k on, cyclically."""
    return [(client * k + place) % classes for place in range(k)]


def batches_of_few_classes(
    labels: IntVector, clients: int, k: int, *, classes: int, samples: int, rng: np.random.Generator
) -> list[IntVector]:
    """Positions of each client's samples: equally many of each of its k classes, and one of every other class.

    Each client has `samples`. Holders of a class share it evenly if it has too few samples. No two clients have a
    sample in common.
    """
    checks.whole("k", k, low=1, high=classes)
    many = (checks.whole("samples", samples, low=classes) - (classes - k)) // k
    parts: list[list[IntVector]] = [[] for _ in range(clients)]
    for label in range(classes):
        pool = rng.permutation(np.flatnonzero(labels == label))
        holders = [client for client in range(clients) if label in own_classes(client, k, classes)]
        others = [client for client in range(clients) if client not in holders]
        if pool.size < clients:
            raise InvalidInput("labels", f"have {pool.size} samples of class {label}", f"pass at least {clients}")
        for place, client in enumerate(others):
            parts[client].append(pool[place : place + 1])
        left = pool[len(others) :]
        each = min(many, left.size // len(holders)) if holders else 0
        for place, client in enumerate(holders):
            parts[client].append(left[place * each : (place + 1) * each])
    return [np.sort(np.concatenate(part)) for part in parts]
