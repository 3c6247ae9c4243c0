"""Named figures of a model on data: its loss, its accuracy if it tells classes apart, and what a user asks for."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import nn

from sensecrypt.client.batches import on_device, size_of
from sensecrypt.client.data import ClientData
from sensecrypt.client.mistakes import explained
from sensecrypt.client.randomness import seeded
from sensecrypt.client.recipe import Recipe, classifies, measured, output_of, target_of
from sensecrypt.errors import InvalidInput


def measure(model: nn.Module, data: ClientData, recipe: Recipe, argument: str = "test") -> dict[str, float]:
    """The figures of a model in evaluation mode, each the mean over samples.

    Args:
        model: to measure.
        data: on which.
        recipe: says the loss and what else to measure.
        argument: what the data are, for errors.
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


def _numbers(told: object) -> dict[str, float]:
    if not isinstance(told, dict) or not told:
        problem = f"returns {'nothing' if told is None else f'a {type(told).__name__}'}"
        raise InvalidInput("evaluate", problem, "return figures by name, such as {'accuracy': 0.9}")
    return {str(name): float(value) for name, value in told.items()}
