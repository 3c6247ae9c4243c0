"""Checks a user's model, data and functions before a run starts: one error per mistake, with client and fix."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.client.data import ClientData, Tensors
from sensecrypt.client.training import (
    Evaluate,
    Fit,
    Loss,
    MakeOptimizer,
    MakeScheduler,
    Metric,
    Recipe,
    classifies,
    output_of,
    target_of,
)
from sensecrypt.client.usercode import described, explained, map_tensors, on_device, seeded, size_of, tensors_of
from sensecrypt.errors import InvalidInput
from sensecrypt.models import constants, require_averageable, require_constants

DEVICES = ("auto", "cpu", "cuda", "mps")


def make_recipe(
    *,
    loss: Loss | None,
    fit: Fit | None,
    optimizer: MakeOptimizer | None,
    scheduler: MakeScheduler | None,
    proximal_mu: float,
    metrics: Mapping[str, Metric] | None,
    evaluate: Evaluate | None,
    device: str,
) -> Recipe:
    """Return the recipe of these arguments; raise `InvalidInput` if they are wrong or contradict each other."""
    functions = {"loss": loss, "fit": fit, "optimizer": optimizer, "scheduler": scheduler, "evaluate": evaluate}
    for name, function in functions.items():
        if isinstance(function, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
            fix = "pass a function that creates one, such as lambda parameters: torch.optim.Adam(parameters, lr=1e-3)"
            raise InvalidInput(name, "belongs to one model, but every client trains its own", fix)
        if function is not None and not callable(function):
            raise InvalidInput(name, f"is a {type(function).__name__}", "pass a function")
    checks.number("proximal_mu", proximal_mu, low=0.0, high=1e6)
    if fit is not None:
        for name, given in (("optimizer", optimizer), ("scheduler", scheduler), ("proximal_mu", proximal_mu)):
            if given:
                raise InvalidInput(name, "has no effect with fit, which is the whole training", "leave one of them out")
    if metrics is not None and evaluate is not None:
        problem = "have no effect with evaluate, which returns all figures"
        raise InvalidInput("metrics", problem, "leave one of them out")
    for name, figure in (metrics or {}).items():
        if not callable(figure):
            raise InvalidInput("metrics", f"has {name}, a {type(figure).__name__}", "pass a function per name")
    return Recipe(loss, fit, optimizer, scheduler, proximal_mu, dict(metrics or {}), evaluate, choose_device(device))


def choose_device(name: str) -> torch.device:
    """Return the device on which models train; `auto`: the first of CUDA, MPS and CPU that this machine has."""
    checks.choice("device", name.split(":")[0] if isinstance(name, str) else str(name), DEVICES)
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, available in present.items() if available))
    if not present[name.split(":")[0]]:
        raise InvalidInput("device", f"is {name}, which this machine does not have", "pass device='auto'")
    return torch.device(name)


def check_model(model: Any) -> None:
    """Raise unless clients can train copies of this model and the copies can be averaged."""
    if isinstance(model, type) or not isinstance(model, nn.Module):
        kind = f"is the class {model.__name__}" if isinstance(model, type) else f"is a {type(model).__name__}"
        raise InvalidInput("model", f"{kind}, not a torch.nn.Module", "pass a module, such as Net()")
    require_averageable(model)
    try:
        copy.deepcopy(model)
    except (RecursionError, RuntimeError, TypeError) as error:
        problem = f"cannot be copied ({type(error).__name__}), but every client trains a copy"
        fix = "remove open files, graphs and references to itself from it"
        raise InvalidInput("model", problem, fix) from None


def check_one_step(model: nn.Module, data: ClientData, recipe: Recipe) -> int:
    """Train on one batch of the first client, raise if that fails, and return the number of classes (0: none)."""
    if recipe.fit is not None:
        return 0
    trial = copy.deepcopy(model).to(recipe.device).train()
    before = constants(trial)
    with seeded(0), explained("clients[0]", trial):
        batch = on_device(_first(data), recipe.device)
        output = output_of(trial, batch)
        loss = recipe.loss_of(output, batch)
        torch.autograd.backward(loss)
    if not torch.isfinite(loss):
        raise InvalidInput("loss", "is not finite for the first batch", "check the loss and these data")
    require_constants(trial, before)
    return int(output.shape[1]) if classifies(output, target_of(batch)) else 0


def check_data(argument: str, data: ClientData, *, classes: int, like: ClientData | None, recipe: Recipe) -> None:
    """Raise if a client cannot train on the data. Tensors are checked completely, other data by their first batch.

    Args:
        argument: the name of the data in errors.
        data: a client's data.
        classes: the model's number of classes; 0: it does not classify.
        like: data on which a first batch was trained; None: these are the first data.
        recipe: defines whether labels are classes.
    """
    first = data.parts if isinstance(data, Tensors) else _first(data, argument)
    for name, tensor in tensors_of(first):
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            wrong = int((~torch.isfinite(tensor)).flatten(1).any(1).sum()) if tensor.ndim > 1 else "some"
            problem = f"has NaN or infinite values in {wrong} of {len(tensor):,} samples (part {name or 0})"
            raise InvalidInput(argument, problem, "remove or replace them")
    if like is not None:
        _require_alike(argument, first, like)
    target = target_of(first)
    if classes and recipe.loss is None and isinstance(target, torch.Tensor) and not target.is_floating_point():
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= classes:
            problem = f"has labels {low} … {high}, but the model has {classes} classes"
            raise InvalidInput(argument, problem, f"number classes 0 … {classes - 1}")


def check_overlap(clients: Sequence[ClientData], test: ClientData) -> None:
    """Raise if test data and clients have no label in common."""
    pairs = [data.pair for data in clients]
    if test.pair is None or any(pair is None for pair in pairs):
        return
    known = {label for pair in pairs if pair is not None for label in pair[1].tolist()}
    asked = set(test.pair[1].tolist())
    if not known & asked:
        problem = f"has labels {_few(asked)}, but clients have only {_few(known)}"
        raise InvalidInput("test", problem, "pass test data with the clients' labels")


def _require_alike(argument: str, first: Any, like: ClientData) -> None:
    """Raise if tensors differ in type or number of dimensions from those of the first client."""
    own, known = dict(tensors_of(first)), dict(tensors_of(_first(like)))
    same = own.keys() == known.keys() and all(
        tensor.ndim == known[name].ndim and tensor.is_floating_point() == known[name].is_floating_point()
        for name, tensor in own.items()
    )
    rows = same and isinstance(like, Tensors)
    if not same or (rows and any(each.shape[1:] != known[name].shape[1:] for name, each in own.items())):
        problem = f"has samples of {_form(first)}, but the first client has {_form(_first(like))}"
        raise InvalidInput(argument, problem, "give all clients data of the same form")


def _first(data: ClientData, argument: str = "clients[0]") -> Any:
    with seeded(0):
        batch = next(iter(data.ordered(8)), None)
    if batch is None or not size_of(batch):
        raise InvalidInput(argument, "has no samples", "leave this client out, or give it data")
    return batch


def _form(batch: Any) -> str:
    """Return shape and type of each part of a sample, for an error."""
    return described(map_tensors(lambda tensor: tensor[0] if tensor.ndim else tensor, batch))


def _few(labels: set[int]) -> str:
    shown = sorted(labels)
    return ", ".join(map(str, shown[:5])) + (", …" if len(shown) > 5 else "")
