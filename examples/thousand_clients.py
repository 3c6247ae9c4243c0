"""A thousand clients of which twenty are sampled per round; data are made when a client takes part.

python examples/thousand_clients.py            20 rounds
python examples/thousand_clients.py --tiny     2 rounds of 50 clients
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt import federate

TINY = "--tiny" in sys.argv
CLIENTS, ROUNDS = (50, 2) if TINY else (1000, 20)
PIXELS, LABELS = load_digits(return_X_y=True)


def load(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This client's forty digits: in a fleet, what is on the device."""
    mine = np.random.default_rng(client).choice(1500, 40, replace=False)
    return torch.tensor(PIXELS[mine] / 16, dtype=torch.float32), torch.tensor(LABELS[mine])


def main() -> None:
    """Print accuracy, time and memory."""
    torch.manual_seed(0)
    start = time.perf_counter()
    result = federate(
        nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        range(CLIENTS),
        load=load,
        weights=[40] * CLIENTS,  # else every client's data would be made once, to count them
        sample=20,
        test=(torch.tensor(PIXELS[1500:] / 16, dtype=torch.float32), torch.tensor(LABELS[1500:])),
        rounds=ROUNDS,
        settings={"clustering": "none", "local_epochs": 5, "learning_rate": 0.1, "batch_size": 10},
    )
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    memory = [resource.getrusage(each).ru_maxrss / 1024 for each in who]
    print(
        f"{CLIENTS:,} clients, {ROUNDS} rounds: {time.perf_counter() - start:.0f} s, {max(memory):.0f} MB per process"
    )
    print(
        f"accuracy {result.history[0]['accuracy']:.1%} after one round, {result.history[-1]['accuracy']:.1%} at the end"
    )


if __name__ == "__main__":
    main()
