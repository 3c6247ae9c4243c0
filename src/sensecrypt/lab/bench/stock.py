"""The cost of python-paillier, the paper's "stock implementation", on this machine."""

from __future__ import annotations

import time

import numpy as np

from sensecrypt.lab.bench.crypto import python_paillier, python_paillier_weighted
from sensecrypt.lab.bench.measure import Times
from sensecrypt.simulation.clock import CostModel

_REPEATS = 5


def stock_cost_model() -> CostModel:
    """Seconds of processor time for each operation on one value: medians over batches of real ones at 2048 bits."""
    found: dict[str, float] = {}
    for peer in (python_paillier(np.random.default_rng(0)), python_paillier_weighted(np.random.default_rng(0))):
        times = Times(time.process_time)
        for _ in range(_REPEATS):
            for operation, step in peer.steps.items():
                times.of(operation, step)
        found |= {operation: seconds / peer.values for operation, seconds in times.medians.items()}
    return CostModel(**found)
