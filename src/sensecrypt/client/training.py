"""Local training with PyTorch, one thread, the same on every run."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt.client.batches import on_device
from sensecrypt.client.data import ClientData, Tensors
from sensecrypt.client.recipe import Recipe, output_of
from sensecrypt.models import constants, get_vector, require_constants

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
_BATCH = 512


def as_tensor(images: Images) -> torch.Tensor:
    """Pixels from 0 … 255 to 0 … 1; other numbers as they are."""
    inputs = torch.from_numpy(images)
    return inputs.to(torch.float32).div_(255) if inputs.dtype == torch.uint8 else inputs


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
    """Stochastic gradient descent of a classifier with batches drawn from `seed`; the weights afterwards."""
    return train_on(
        model,
        Tensors("data", (images, labels)),
        Recipe(),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        momentum=momentum,
        seed=seed,
        number=0,
    )


def train_on(
    model: nn.Module,
    data: ClientData,
    recipe: Recipe,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    momentum: float,
    seed: int,
    number: int,
) -> npt.NDArray[np.float32]:
    """Train by a recipe with batches drawn from `seed`; the model's vector afterwards."""
    model.train()
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    make = recipe.optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum))
    optimiser = make(trainable)
    if recipe.scheduler is not None:
        _advance(recipe.scheduler(optimiser), number)
    start = [parameter.detach().clone() for parameter in trainable] if recipe.proximal_mu else []
    generator = torch.Generator().manual_seed(seed)
    before = constants(model)
    for _ in range(epochs):
        for each in data.epoch(batch_size, generator):
            batch = on_device(each, recipe.device)
            optimiser.zero_grad()
            torch.autograd.backward(recipe.loss_of(output_of(model, batch), batch))
            for parameter, origin in zip(trainable, start, strict=False):
                pull = recipe.proximal_mu * (parameter.detach() - origin)
                parameter.grad = pull if parameter.grad is None else parameter.grad + pull
            optimiser.step()
    require_constants(model, before)
    return get_vector(model)


def _advance(schedule: torch.optim.lr_scheduler.LRScheduler, number: int) -> None:
    """Take the schedule to a round: a step per round before it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the optimiser has not stepped yet: it did in other rounds
        for _ in range(number):
            schedule.step()


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
