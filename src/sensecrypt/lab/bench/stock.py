"""What a ciphertext costs with python-paillier on this machine: the paper's "stock implementation"."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from sensecrypt.lab.bench.crypto import python_paillier, python_paillier_weighted
from sensecrypt.simulation.clock import CostModel

_REPEATS = 5


def stock_cost_model() -> CostModel:
    """Seconds of processor time for each operation on one value: medians over batches of real ones at 2048 bits."""
    times: dict[str, list[float]] = {}
    for peer in (python_paillier(np.random.default_rng(0)), python_paillier_weighted(np.random.default_rng(0))):
        for _ in range(_REPEATS):
            for operation, step in peer.steps.items():
                start = time.process_time()
                step()
                times.setdefault(operation, []).append((time.process_time() - start) / peer.values)
    return CostModel(**{operation: median(each) for operation, each in times.items()})
