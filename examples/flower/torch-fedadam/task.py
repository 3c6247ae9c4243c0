"""The model, its data, its training and its evaluation."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A perceptron with one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """One score per digit."""
        return self.layers(images)


def make_net(seed: int) -> Net:
    """The network before the first round."""
    torch.manual_seed(seed)
    return Net()


def load_data(partition: int, partitions: int) -> tuple[DataLoader, DataLoader]:
    """A client's share of the digits: four fifths to train with, the rest to test with."""
    images, labels = load_digits(return_X_y=True)
    own = TensorDataset(
        torch.tensor(images[partition::partitions], dtype=torch.float32).reshape(-1, 1, 8, 8) / 16,
        torch.tensor(labels[partition::partitions]),
    )
    cut = int(0.8 * len(own))
    train, test = torch.utils.data.Subset(own, range(cut)), torch.utils.data.Subset(own, range(cut, len(own)))
    order = torch.Generator().manual_seed(partition)
    return DataLoader(train, batch_size=16, shuffle=True, generator=order), DataLoader(test, batch_size=64)


def train(net: nn.Module, data: DataLoader, *, epochs: int, learning_rate: float) -> float:
    """Train in place, and return the mean loss."""
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=0.9)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for images, labels in data:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(data))


def test(net: nn.Module, data: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy."""
    net.eval()
    loss = correct = 0.0
    with torch.no_grad():
        for images, labels in data:
            scores = net(images)
            loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            correct += (scores.argmax(1) == labels).sum().item()
    count = len(data.dataset)
    return loss / count, correct / count
