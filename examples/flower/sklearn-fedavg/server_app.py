"""The ServerApp: federated averaging over all clients; it writes the final model to a file."""

from __future__ import annotations

import random

import numpy as np
import task
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    random.seed(int(context.run_config["seed"]))
    initial = ArrayRecord({key: Array(array) for key, array in task.arrays_of(task.make_model(1)).items()})
    strategy = FedAvg()
    rounds = int(context.run_config["num-server-rounds"])
    result = strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds)
    if context.run_config["out"]:
        np.savez(str(context.run_config["out"]), **{key: array.numpy() for key, array in result.arrays.items()})
