"""The ServerApp: Adam on the mean update of a sample of the clients; it writes the final model to a file."""

from __future__ import annotations

import random

import numpy as np
import task
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    seed = int(context.run_config["seed"])
    random.seed(seed)
    initial = ArrayRecord(task.make_net(seed).state_dict())
    strategy = FedAdam(fraction_train=float(context.run_config["fraction-train"]), eta=0.02, beta_1=0.9, beta_2=0.99)
    rounds = int(context.run_config["num-server-rounds"])
    result = strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds)
    if context.run_config["out"]:
        np.savez(str(context.run_config["out"]), **{key: array.numpy() for key, array in result.arrays.items()})
