"""Local training with PyTorch, one thread, the same on every run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt.models import get_vector

Fit = Callable[[nn.Module, torch.Tensor, torch.Tensor, int], None]  # trains on inputs and labels, in place, by a seed
Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
_BATCH = 512


def as_tensor(images: Images) -> torch.Tensor:
    """Pixels from 0 … 255 to 0 … 1."""
    return torch.from_numpy(images).to(torch.float32).div_(255)


def warm_up() -> None:
    """Let PyTorch load what its first optimiser step needs: seconds that no client should be charged with."""
    parameter = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    torch.autograd.backward(parameter.sum())
    optimiser.step()


def train(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    momentum: float,
    seed: int,
) -> npt.NDArray[np.float32]:
    """Stochastic gradient descent with batches drawn from `seed`; the weights afterwards."""
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=momentum)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(len(labels), generator=generator)
        for start in range(0, len(labels), batch_size):
            batch = order[start : start + batch_size]
            optimiser.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(images[batch]), labels[batch]))
            optimiser.step()
    return get_vector(model)


def accuracy_on(model: nn.Module, test: tuple[torch.Tensor, torch.Tensor], labels: torch.Tensor, classes: int) -> float:
    """A model's accuracy on test data distributed as `labels` are."""
    by_class = np.nan_to_num(accuracy_by_class(model, *test, classes))
    return float(class_shares(labels, classes) @ by_class)


def class_shares(labels: torch.Tensor, classes: int) -> npt.NDArray[np.float64]:
    """The share of each class among `labels`."""
    counts: npt.NDArray[np.float64] = np.bincount(labels.numpy(), minlength=classes) / len(labels)
    return counts


def accuracy_by_class(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor, classes: int
) -> npt.NDArray[np.float64]:
    """Share of each class's samples that are recognised; NaN for a class without samples."""
    model.eval()
    right = np.zeros(classes)
    total = np.zeros(classes)
    with torch.no_grad():
        for start in range(0, len(labels), _BATCH):
            batch = slice(start, start + _BATCH)
            hit = (model(images[batch]).argmax(dim=1) == labels[batch]).numpy()
            truth = labels[batch].numpy()
            total += np.bincount(truth, minlength=classes)
            right += np.bincount(truth[hit], minlength=classes)
    with np.errstate(invalid="ignore"):
        shares: npt.NDArray[np.float64] = right / total
    return shares
