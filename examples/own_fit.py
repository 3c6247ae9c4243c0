"""A training function of one's own, early stopping, and going on after it: with two inputs and bfloat16 weights.

    python examples/own_fit.py

The same `fit` goes into `sensecrypt.transports.flower.client_app(load, fit=fit)`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sensecrypt import federate


class Product(nn.Module):
    """Two towers and the product of what they make of their inputs."""

    def __init__(self) -> None:
        """Random weights."""
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(4, 16)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """A score per sample."""
        return (torch.tanh(self.left(user)) * torch.tanh(self.right(item))).sum(1)


def fit(model: nn.Module, loader: DataLoader, number: int) -> None:
    """All of a client's training in one round, in place."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02 / (1 + number))
    for user, item, liked in loader:
        optimizer.zero_grad()
        score = model(user.bfloat16(), item.bfloat16()).float()
        nn.functional.binary_cross_entropy_with_logits(score, liked).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def evaluate(model: nn.Module, loader: DataLoader) -> dict[str, float]:
    """Named figures on the test data."""
    right = [((model(u.bfloat16(), i.bfloat16()) > 0) == liked.bool()).float() for u, i, liked in loader]
    return {"accuracy": float(torch.cat(right).mean())}


def main() -> None:
    """Stop when it is good enough; then resume for two rounds more."""
    torch.manual_seed(0)
    users, items = torch.randn(900, 8), torch.randn(900, 4)
    liked = (users[:, 0] * items[:, 0] > 0).float()
    loaders = [DataLoader(TensorDataset(users[i::4], items[i::4], liked[i::4]), batch_size=16) for i in range(4)]
    model = Product().to(torch.bfloat16)
    arguments = {"test": loaders[3], "fit": fit, "evaluate": evaluate, "settings": {"clustering": "none"}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        result = federate(
            model, loaders[:3], rounds=12, out=out, on_round=lambda done: done.metrics["accuracy"] > 0.6, **arguments
        )
        print(f"stopped early: {result}")
        rounds = len(result.history) + 2
        result = federate(model, loaders[:3], rounds=rounds, out=out, resume=True, **arguments)
        print(f"resumed: {result}")
        print("saved as", result.save(out / "model.safetensors").name, "in", result.state_dict()["left.weight"].dtype)


if __name__ == "__main__":
    main()
