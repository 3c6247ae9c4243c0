"""Sketches of real data: what clients of a run send for clustering, before the key server rotates it.

A rotation keeps all distances, so clustering has the same result without it.
"""

from __future__ import annotations

import numpy as np

from sensecrypt.algo.merging import Matrix
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.algo.sketching import sketch
from sensecrypt.checks import IntVector
from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.models import get_vector, mean_gradient

_SEED = b"seed of the measured sketches"


def real_sketches(dataset: str, clients: int, partition: str, *, seed: int, model: str = "") -> Matrix:
    """One sketch per client, of its sensitivities at the initial model, over all its samples.

    Arguments are as in a run's configuration; `seed` is that of the partition and of the initial model.
    """
    settings = {"dataset": dataset, "model": model, "clients": clients, "partition": partition, "seed": seed}
    problem = configured_problem(make_config(settings))
    initial = problem.build()
    weights = get_vector(initial)
    gains = (sensitivity(weights, mean_gradient(initial, *samples)) for samples in problem.clients)
    return np.array([sketch(each.astype(np.float64), seed=_SEED) for each in gains])


def true_clusters(clients: int, partition: str) -> IntVector | None:
    """The category of each client; all one for `iid`; None for partitions without true clusters."""
    kind, _, value = partition.partition(":")
    if kind == "iid":
        return np.zeros(clients, dtype=np.int64)
    if kind != "categories":
        return None
    sizes = [len(part) for part in np.array_split(np.arange(clients), int(value))]
    return np.repeat(np.arange(int(value)), sizes)
