"""The ServerApp: federated averaging over all clients; it writes the final model to a file."""

from __future__ import annotations

import random

import numpy as np
import task
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    seed = int(context.run_config["seed"])
    random.seed(seed)
    initial = ArrayRecord(task.make_net(seed).state_dict())
    strategy = FedAvg()
    rounds = int(context.run_config["num-server-rounds"])
    result = strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds)
    if context.run_config["out"]:
        np.savez(str(context.run_config["out"]), **{key: array.numpy() for key, array in result.arrays.items()})
