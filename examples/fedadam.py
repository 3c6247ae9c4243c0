"""FedAdam on the server, FedProx and a schedule over rounds at the clients.

python examples/fedadam.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt import federate
from sensecrypt.algo.serverupdates import ServerRule


def main() -> None:
    """Four clients with digits of their own kinds each, three rules."""
    x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    x, kinds = x.float() / 16, y * 4 // 10
    clients = [(x[:1500][kinds[:1500] == kind], y[:1500][kinds[:1500] == kind]) for kind in range(4)]
    rules = {"FedAvg": ServerRule(), "FedAdam": ServerRule("fedadam", 0.03), "FedYogi": ServerRule("fedyogi", 0.03)}
    for name, server in rules.items():
        torch.manual_seed(0)
        result = federate(
            nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
            clients,
            test=(x[1500:], y[1500:]),
            server=server,
            proximal_mu=0.01,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95),
            rounds=6,
            settings={"clustering": "none"},
        )
        print(f"{name}: {result}")


if __name__ == "__main__":
    main()
