"""What a user asks for, checked before anything starts: one sentence per mistake, with the client and the fix."""

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
    """How models train, if all of it can be used and nothing contradicts the rest."""
    functions = {"loss": loss, "fit": fit, "optimizer": optimizer, "scheduler": scheduler, "evaluate": evaluate}
    for name, function in functions.items():
        if isinstance(function, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
            fix = "pass a function that makes one, such as lambda parameters: torch.optim.Adam(parameters, lr=1e-3)"
            raise InvalidInput(name, "belongs to one model, and every client trains its own", fix)
        if function is not None and not callable(function):
            raise InvalidInput(name, f"is a {type(function).__name__}", "pass a function")
    checks.number("proximal_mu", proximal_mu, low=0.0, high=1e6)
    if fit is not None:
        for name, given in (("optimizer", optimizer), ("scheduler", scheduler), ("proximal_mu", proximal_mu)):
            if given:
                raise InvalidInput(name, "is given besides fit, which is the whole training", "leave one of them out")
    if metrics is not None and evaluate is not None:
        raise InvalidInput("metrics", "are given besides evaluate, which is all figures", "leave one of them out")
    for name, figure in (metrics or {}).items():
        if not callable(figure):
            raise InvalidInput("metrics", f"has {name}, a {type(figure).__name__}", "pass a function per name")
    return Recipe(loss, fit, optimizer, scheduler, proximal_mu, dict(metrics or {}), evaluate, choose_device(device))


def choose_device(name: str) -> torch.device:
    """Where models train; `auto`: the first of CUDA, MPS and CPU that is there."""
    checks.choice("device", name.split(":")[0] if isinstance(name, str) else str(name), DEVICES)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, available in there.items() if available))
    if not there[name.split(":")[0]]:
        raise InvalidInput("device", f"is {name}, which this machine does not have", "pass device='auto'")
    return torch.device(name)


def check_model(model: Any) -> None:
    """Raise for what cannot be trained together."""
    if isinstance(model, type) or not isinstance(model, nn.Module):
        told = f"is the class {model.__name__}" if isinstance(model, type) else f"is a {type(model).__name__}"
        raise InvalidInput("model", f"{told}, and no torch.nn.Module", "pass a module, such as Net()")
    require_averageable(model)
    try:
        copy.deepcopy(model)
    except (RecursionError, RuntimeError, TypeError) as error:
        problem = f"cannot be copied ({type(error).__name__}), and every client trains a copy"
        raise InvalidInput("model", problem, "keep open files, graphs and references to itself out of it") from None


def check_one_step(model: nn.Module, data: ClientData, recipe: Recipe) -> int:
    """Raise unless one batch of the first client can be trained on; the number of classes, or 0 if there are none."""
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
        raise InvalidInput("loss", "is not finite for the first batch", "look at the loss and at these data")
    require_constants(trial, before)
    return int(output.shape[1]) if classifies(output, target_of(batch)) else 0


def check_data(argument: str, data: ClientData, *, classes: int, like: ClientData | None, recipe: Recipe) -> None:
    """Raise for data that no client could train on: tensors are read whole, of others the first batch.

    Args:
        argument: what they are, for errors.
        data: a client's.
        classes: that the model tells apart; 0: it does not classify.
        like: data of which a first batch has been trained on; None: these are the first.
        recipe: says whether labels are classes.
    """
    first = data.parts if isinstance(data, Tensors) else _first(data, argument)
    for name, tensor in tensors_of(first):
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            wrong = int((~torch.isfinite(tensor)).flatten(1).any(1).sum()) if tensor.ndim > 1 else "some"
            problem = f"has NaN or infinite values in {wrong} of {len(tensor):,} samples (part {name or 0})"
            raise InvalidInput(argument, problem, "clean these data")
    if like is not None:
        _require_alike(argument, first, like)
    target = target_of(first)
    if classes and recipe.loss is None and isinstance(target, torch.Tensor) and not target.is_floating_point():
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= classes:
            problem = f"has labels {low} … {high}, and the model tells {classes} classes apart"
            raise InvalidInput(argument, problem, f"number classes 0 … {classes - 1}")


def check_overlap(clients: Sequence[ClientData], test: ClientData) -> None:
    """Raise if the test data have only labels that no client has."""
    pairs = [data.pair for data in clients]
    if test.pair is None or any(pair is None for pair in pairs):
        return
    known = {label for pair in pairs if pair is not None for label in pair[1].tolist()}
    asked = set(test.pair[1].tolist())
    if not known & asked:
        problem = f"has labels {_few(asked)}, and clients have {_few(known)}: none of these"
        raise InvalidInput("test", problem, "pass test data of what clients learn")


def _require_alike(argument: str, first: Any, like: ClientData) -> None:
    """Raise for tensors of another number of dimensions or type than those that a step was made with."""
    told, known = dict(tensors_of(first)), dict(tensors_of(_first(like)))
    same = told.keys() == known.keys() and all(
        tensor.ndim == known[name].ndim and tensor.is_floating_point() == known[name].is_floating_point()
        for name, tensor in told.items()
    )
    wide = same and isinstance(like, Tensors)
    if not same or (wide and any(each.shape[1:] != known[name].shape[1:] for name, each in told.items())):
        problem = f"has samples of {_form(first)}, and the first client of {_form(_first(like))}"
        raise InvalidInput(argument, problem, "give all clients data of one form")


def _first(data: ClientData, argument: str = "clients[0]") -> Any:
    with seeded(0):
        batch = next(iter(data.ordered(8)), None)
    if batch is None or not size_of(batch):
        raise InvalidInput(argument, "has no samples", "leave this client out, or give it data")
    return batch


def _form(batch: Any) -> str:
    """Shape and type of each part of a sample, for an error."""
    return described(map_tensors(lambda tensor: tensor[0] if tensor.ndim else tensor, batch))


def _few(labels: set[int]) -> str:
    shown = sorted(labels)
    return ", ".join(map(str, shown[:5])) + (", …" if len(shown) > 5 else "")
