"""Your model, your data, your devices: trained cluster models from one call.

python examples/own_model.py
"""

from __future__ import annotations

import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt import Device, federate


def main() -> None:
    """Ten clients: five hold small digits, five large ones; no two devices are alike."""
    x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    x = x.float() / 16
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    low, high = (torch.nonzero(group).ravel() for group in (y < 5, y >= 5))
    parts = [*low.split(len(low) // 5 + 1), *high.split(len(high) // 5 + 1)]
    clients = [(x[part], y[part]) for part in parts]
    devices = [Device(cpus=8 - i // 2, bandwidth=50 - 3 * i) for i in range(len(clients))]
    with tempfile.TemporaryDirectory() as folder:
        result = federate(model, clients, test=(x, y), devices=devices, out=folder, settings={"rounds": 5})
        print(f"{len(result.models())} cluster models: {result.why_clusters}")
        print("accuracy of each client:", " ".join(f"{accuracy:.0%}" for accuracy in result.accuracy))


if __name__ == "__main__":
    main()
