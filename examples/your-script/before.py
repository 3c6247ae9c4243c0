"""Train a small CNN on digits: a script as people write them."""

from __future__ import annotations

import argparse
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Images with a random shift while training."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, train: bool) -> None:
        self.images, self.labels, self.train = images, labels, train

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = torch.tensor(self.images[index] / 16, dtype=torch.float32).view(1, 8, 8)
        if self.train:
            image = image.roll(int(torch.randint(-1, 2, ())), dims=2)
        return image, int(self.labels[index])


class Net(nn.Module):
    """Two convolutions with batch normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(width * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.relu(self.norm1(self.conv1(x))), 2)
        x = torch.max_pool2d(torch.relu(self.norm2(self.conv2(x))), 2)
        return self.head(self.drop(x.flatten(1)))


def train_epoch(model: nn.Module, loader: DataLoader, rate: float) -> None:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> dict[str, float]:
    model.eval()
    right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in loader)
    return {"accuracy": right / len(loader.dataset)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=3e-3)
    args = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    train = DataLoader(Digits(images[:1500], labels[:1500], train=True), batch_size=32, shuffle=True)
    test = DataLoader(Digits(images[1500:], labels[1500:], train=False), batch_size=64)
    model = Net(width=8)
    for epoch in range(args.epochs):
        train_epoch(model, train, args.rate)
        print(epoch, evaluate(model, test))
    torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()
