"""A ClientApp: a model, this client's data, a training loop, and one line that selects and encrypts."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt.client.problem import Share
from sensecrypt.config import RunConfig
from sensecrypt.transports.flower import client_app


def build() -> nn.Module:
    """The initial model, the same at every client."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def load(config: RunConfig, client: int) -> Share:
    """This client's data: here every n-th digit, in a real fleet the data on the device."""
    x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    x = x.float() / 16
    mine = slice(client, 1500, config.problem.clients)
    return Share(build, (x[mine], y[mine]), (x[1500:], y[1500:]), classes=10)


def fit(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor], number: int) -> None:
    """Local training in round `number`, in place; PyTorch is seeded by the caller."""
    inputs, labels = data
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * 0.95**number)
    for batch in torch.randperm(len(labels)).split(32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()


app = client_app(load, fit=fit)
