"""What is to be learned: a model, each client's data, and data to test on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from sensecrypt.client.training import as_tensor
from sensecrypt.config import RunConfig
from sensecrypt.data import load_dataset, make_partition
from sensecrypt.errors import InvalidInput
from sensecrypt.models import DEFAULT_MODEL, always_encrypt, build_model
from sensecrypt.policies import get_policy
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.types import BoolVector

Samples = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Problem:
    """A classification problem spread over clients.

    Attributes:
        build: makes the initial model, the same every time.
        clients: inputs and labels of each.
        test: inputs and labels to measure accuracy on.
        classes: how many there are.
    """

    build: Callable[[], nn.Module]
    clients: list[Samples]
    test: Samples
    classes: int


def configured_problem(config: RunConfig) -> Problem:
    """The data set, partition and model that a configuration names."""
    data = load_dataset(config.problem.dataset)
    parts = make_partition(
        config.problem.partition,
        data.train_labels,
        config.problem.clients,
        rng=derive_rng(config.problem.seed, "partition"),
    )
    name = config.problem.model or DEFAULT_MODEL[config.problem.dataset]
    return Problem(
        partial(build_model, name, seed=derive_seed(config.problem.seed, "model")),
        [(as_tensor(data.train_images[part]), torch.from_numpy(data.train_labels[part])) for part in parts],
        (as_tensor(data.test_images), torch.from_numpy(data.test_labels)),
        data.classes,
    )


@dataclass(frozen=True, eq=False)
class Share:
    """One client's part in a problem, which is all that it has of it.

    Attributes:
        build: makes the initial model, the same at every client.
        data: inputs and labels to train on.
        test: inputs and labels to measure accuracy on.
        classes: how many there are.
    """

    build: Callable[[], nn.Module]
    data: Samples
    test: Samples
    classes: int


def configured_share(config: RunConfig, client: int) -> Share:
    """A client's part in what a configuration names."""
    problem = configured_problem(config)
    return Share(problem.build, problem.clients[client], problem.test, problem.classes)


def always_of(config: RunConfig, model: nn.Module, classes: int) -> BoolVector | None:
    """Parameters that a run encrypts whatever their sensitivity, if there are any."""
    if config.selection.always_encrypt != "classifier" or not get_policy(config.selection.policy).heeds_always:
        return None
    return always_encrypt(model, classes)


def own_problem(model: nn.Module, clients: Sequence[Any], test: Any) -> Problem:
    """A user's model and data: each client's is a pair of tensors, or a loader that yields such pairs."""
    if not clients:
        raise InvalidInput("clients", "is empty", "pass the data of at least one client")
    data = [_samples(f"clients[{index}]", each) for index, each in enumerate(clients)]
    held_out = _samples("test", test)
    classes = 1 + max(int(labels.max()) for _, labels in [*data, held_out])
    return Problem(partial(copy.deepcopy, model), data, held_out, classes)


def _samples(argument: str, data: Any) -> Samples:
    fix = "pass a pair (inputs, labels) of tensors, or a loader that yields such pairs"
    if not (isinstance(data, tuple) and len(data) == 2):
        if not isinstance(data, Iterable):
            raise InvalidInput(argument, f"is a {type(data).__name__}", fix)
        batches = [_samples(argument, tuple(batch)) for batch in data]
        if not batches:
            raise InvalidInput(argument, "has no samples", fix)
        return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    inputs, labels = (torch.as_tensor(part) for part in data)
    if len(inputs) != len(labels) or len(labels) == 0 or labels.dtype.is_floating_point or labels.ndim != 1:
        problem = f"has {len(inputs):,} inputs and labels of shape {tuple(labels.shape)} and type {labels.dtype}"
        raise InvalidInput(argument, problem, "pass one whole number a sample as its label")
    return inputs.to(torch.float32), labels.to(torch.int64)
