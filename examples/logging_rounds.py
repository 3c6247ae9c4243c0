"""Figures of every round into a CSV file, and into TensorBoard where it is installed, by a callback.

python examples/logging_rounds.py
"""

from __future__ import annotations

import csv
import importlib.util
import sys
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt import federate


def main() -> None:
    """Three clients; each is measured on samples of its own, too."""
    x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    x = x.float() / 16
    folder = Path(tempfile.mkdtemp())
    board = None
    if importlib.util.find_spec("tensorboard") is not None:
        from torch.utils.tensorboard import SummaryWriter

        board = SummaryWriter(str(folder))
    with (folder / "rounds.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["round", "loss", "accuracy", "encrypted"])

        def log(done) -> None:
            row = [done.metrics["loss"], done.metrics["accuracy"], done.encrypted_share]
            writer.writerow([done.number, *(f"{value:.4f}" for value in row)])
            for name, value in done.metrics.items() if board is not None else ():
                board.add_scalar(name, value, done.number)

        torch.manual_seed(0)
        result = federate(
            nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
            [(x[i:1200:3], y[i:1200:3]) for i in range(3)],
            client_tests=[(x[1200 + i : 1500 : 3], y[1200 + i : 1500 : 3]) for i in range(3)],
            test=(x[1500:], y[1500:]),
            rounds=3,
            on_round=log,
            settings={"clustering": "none", "learning_rate": 0.1},
        )
    sys.stdout.write((folder / "rounds.csv").read_text())
    for row in result.client_history[-3:]:
        print(f"client {row['client']}: accuracy {row['accuracy']:.1%} on its own samples")


if __name__ == "__main__":
    main()
