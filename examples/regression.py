"""Regression: a loss and metrics of one's own, and tensors of floating-point targets.

python examples/regression.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_diabetes
from torch import nn

from sensecrypt import federate


def main() -> None:
    """Four clinics predict the progression of diabetes."""
    x, y = (torch.tensor(part, dtype=torch.float32) for part in load_diabetes(return_X_y=True, scaled=True))
    x, y = 20 * x, ((y - y.mean()) / y.std()).unsqueeze(1)
    clients = [(x[i:360:4], y[i:360:4]) for i in range(4)]
    torch.manual_seed(0)
    result = federate(
        nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1)),
        clients,
        test=(x[360:], y[360:]),
        loss=nn.MSELoss(),
        metrics={"mean absolute error": lambda output, batch: (output - batch[1]).abs().mean()},
        rounds=8,
        settings={"clustering": "none"},
    )
    print(result.report())


if __name__ == "__main__":
    main()
