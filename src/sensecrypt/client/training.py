"""Trains and measures models: a user's recipe, the training loop, and figures on test data."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt.client.data import ClientData, Tensors
from sensecrypt.client.usercode import Batch, described, explained, map_tensors, on_device, seeded, size_of
from sensecrypt.errors import InvalidInput
from sensecrypt.models import constants, get_vector, require_constants

Loss = Callable[[Any, Batch], torch.Tensor]  # the loss of a model's output and the batch
Metric = Callable[[Any, Batch], Any]  # a figure of a model's output and the batch
Fit = Callable[[nn.Module, Any, int], Any]  # trains a model on a client's own data, in place, in one round
Evaluate = Callable[[nn.Module, Any], Mapping[str, float]]  # named figures of a model on a user's own data
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How all clients of a run train.

    Attributes:
        loss: returns the loss of a model's output and the batch; None: the output's `loss`, if any, else cross-entropy.
        fit: replaces the training loop by the user's own local training.
        optimizer: returns an optimiser for parameters; None: stochastic gradient descent as configured.
        scheduler: returns a learning-rate schedule for an optimiser, with one step per round.
        proximal_mu: μ of FedProx, which pulls the model towards the round's start model.
        metrics: functions of a model's output and a batch, by name; their values are averaged over samples.
        evaluate: returns named figures of a model on test data, instead of all others.
        device: the device on which models train.
    """

    loss: Loss | None = None
    fit: Fit | None = None
    optimizer: MakeOptimizer | None = None
    scheduler: MakeScheduler | None = None
    proximal_mu: float = 0.0
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    evaluate: Evaluate | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def by_difference(self) -> bool:
        """Whether the change by training replaces the gradient: with `fit` and without `loss`, there is no gradient."""
        return self.fit is not None and self.loss is None

    @property
    def plain(self) -> bool:
        """Whether models are classifiers on the CPU that train with cross-entropy."""
        return self.loss is None and self.device.type == "cpu"

    def loss_of(self, output: Any, batch: Batch) -> torch.Tensor:
        """Return the loss of one batch."""
        if self.loss is not None:
            return _scalar(_call(self.loss, output, batch))
        own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if own is not None:
            return _scalar(own)
        target = target_of(batch)
        if classifies(output, target):
            return nn.functional.cross_entropy(output, target.to(torch.int64))
        kind = f"of shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else type(output).__name__
        problem = f"is not given, and cross-entropy does not fit outputs {kind} and a batch of {described(batch)}"
        raise InvalidInput("loss", problem, "pass loss=, such as nn.MSELoss() or a function of output and batch")


PLAIN = Recipe()


def output_of(model: nn.Module, batch: Batch) -> Any:
    """Return a model's output for a batch: a tuple without its last part, or the dict values that `forward` accepts."""
    kind = _float_type(model)

    def fitting(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(kind) if kind is not None and tensor.is_floating_point() else tensor

    if isinstance(batch, Mapping):
        return model(**map_tensors(fitting, {key: batch[key] for key in _taken(model, batch)}))
    if isinstance(batch, (tuple, list)):
        return model(*map_tensors(fitting, tuple(batch[:-1] if len(batch) > 1 else batch)))
    return model(map_tensors(fitting, batch))


def target_of(batch: Batch) -> Any:
    """Return the target of a batch: the last part of a tuple, the labels of a dict, else the batch itself."""
    if isinstance(batch, Mapping):
        return next((batch[key] for key in ("labels", "label", "target", "targets", "y") if key in batch), None)
    if isinstance(batch, (tuple, list)):
        return batch[-1] if len(batch) else None
    return batch


def classifies(output: Any, target: Any) -> bool:
    """Return whether these are scores of classes and integer labels, one row per sample."""
    both = isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor)
    whole = both and not target.is_floating_point() and target.dtype != torch.bool
    return bool(whole and output.ndim == 2 and target.ndim == 1 and len(output) == len(target))


def measured(figure: Metric, output: Any, batch: Batch) -> float:
    """Return a metric of one batch as a number."""
    return float(_call(figure, output, batch))


def _call(function: Callable[..., Any], output: Any, batch: Batch) -> Any:
    """Call PyTorch's own losses with output and target, any other function with output and batch."""
    of_torch = isinstance(function, nn.Module) or getattr(function, "__module__", "") == "torch.nn.functional"
    return function(output, target_of(batch) if of_torch else batch)


def _scalar(loss: Any) -> torch.Tensor:
    problem = ""
    if not isinstance(loss, torch.Tensor):
        problem = f"is a {type(loss).__name__}"
    elif loss.numel() != 1:
        problem = f"has shape {tuple(loss.shape)}"
    elif torch.is_grad_enabled() and not loss.requires_grad:
        problem = "does not depend on the model's parameters"
    if problem:
        raise InvalidInput("loss", problem, "return one number per batch, computed from the model's output")
    number: torch.Tensor = loss.reshape(())
    return number


def _float_type(model: nn.Module) -> torch.dtype | None:
    """Return the common floating-point type of a model's parameters; None: they have several, or none."""
    kinds = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return kinds.pop() if len(kinds) == 1 else None


def _taken(model: nn.Module, batch: Mapping[str, Any]) -> list[str]:
    arguments = inspect.signature(model.forward).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in arguments.values()):
        return list(batch)
    return [key for key in batch if key in arguments]


Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
_BATCH = 512


def as_tensor(images: Images) -> torch.Tensor:
    """Return images as a tensor: bytes 0 … 255 scaled to 0 … 1, other numbers unchanged."""
    inputs = torch.from_numpy(images)
    return inputs.to(torch.float32).div_(255) if inputs.dtype == torch.uint8 else inputs


def warm_up() -> None:
    """Make PyTorch load what its first optimiser step needs, so that it does not count as a client's work."""
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
    """Train a classifier by stochastic gradient descent with batches drawn from `seed`; return its weights."""
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
    """Train by a recipe with batches drawn from `seed`; return the model's vector."""
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
    """Advance the schedule to a round: one step per earlier round."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch expects optimiser steps, which were in earlier rounds
        for _ in range(number):
            schedule.step()


def accuracy_on(model: nn.Module, test: tuple[torch.Tensor, torch.Tensor], labels: torch.Tensor, classes: int) -> float:
    """Return a model's accuracy on test data, weighted to the distribution of `labels`."""
    by_class = np.nan_to_num(accuracy_by_class(model, *test, classes))
    return float(class_shares(labels, classes) @ by_class)


def class_shares(labels: torch.Tensor, classes: int) -> npt.NDArray[np.float64]:
    """Return the share of each class in `labels`."""
    counts: npt.NDArray[np.float64] = np.bincount(labels.numpy(), minlength=classes) / len(labels)
    return counts


def accuracy_by_class(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor, classes: int
) -> npt.NDArray[np.float64]:
    """Return the share of each class's samples that are classified correctly; NaN for a class without samples."""
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


def measure(model: nn.Module, data: ClientData, recipe: Recipe, argument: str = "test") -> dict[str, float]:
    """Return figures of a model in evaluation mode, each the mean over samples.

    Args:
        model: the model.
        data: the test data.
        recipe: defines loss and metrics.
        argument: the name of the data in errors.
    """
    model.to(recipe.device).eval()
    with torch.no_grad(), seeded(0), explained(argument, model):
        data.begin(0)
        if recipe.evaluate is not None:
            return _numbers(recipe.evaluate(model, data.own))
        sums, total = defaultdict[str, float](float), 0
        for each in data.ordered():
            batch, many = on_device(each, recipe.device), size_of(each)
            output, target, total = output_of(model, batch), target_of(batch), total + many
            if not recipe.by_difference:
                sums["loss"] += many * float(recipe.loss_of(output, batch))
            if classifies(output, target):
                sums["accuracy"] += float((output.argmax(dim=1) == target).sum())
            for name, figure in recipe.metrics.items():
                sums[name] += many * measured(figure, output, batch)
        return {name: value / total for name, value in sums.items()}


def _numbers(figures: object) -> dict[str, float]:
    if not isinstance(figures, dict) or not figures:
        problem = f"returns {'nothing' if figures is None else f'a {type(figures).__name__}'}"
        raise InvalidInput("evaluate", problem, "return figures by name, such as {'accuracy': 0.9}")
    return {str(name): float(value) for name, value in figures.items()}
