"""In a fleet, training draws from the client's machine; on one machine, from the run's seed."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sensecrypt.client import scoring
from sensecrypt.client.context import ClientContext
from sensecrypt.client.scoring import train_locally
from sensecrypt.client.training import Recipe
from sensecrypt.config import make_config
from sensecrypt.models import get_vector
from tests.crypto.conftest import keypair

DATA = {0: (torch.randn(8, 4, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 2)}


def build() -> nn.Module:
    torch.manual_seed(0)  # as many do: whatever layers draw after it would follow from it
    return nn.Linear(4, 2)


def drawn(*, local: bool) -> tuple[int, float, list[float]]:
    """The seed of batches, what a layer draws while training, and the first sample for sensitivities."""
    seen: list[tuple[int, float]] = []

    def fit(model, data, number) -> None:
        seen.append((torch.initial_seed(), float(torch.rand(()))))

    context = ClientContext(
        make_config({}), build, DATA, keypair("insecure-test")[0], recipe=Recipe(fit=fit), local=local
    )
    train_locally(context, 0, get_vector(build()), 0)
    [(seed, layer)] = seen
    return seed, layer, scoring._sample(context, 0, 0, 3).pair[0].ravel().tolist()


def test_on_one_machine_everything_follows_from_the_seed():
    first, second = drawn(local=False), drawn(local=False)
    assert first == second


def test_in_a_fleet_nothing_does():
    first, second = drawn(local=True), drawn(local=True)
    assert first[0] != second[0]
    assert first[1] != second[1]
    samples = {tuple(np.round(drawn(local=True)[2], 6)) for _ in range(10)}
    assert len(samples) > 1
