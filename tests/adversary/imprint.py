"""An imprint by one member: move the model to one whose first layer keeps each sample in a bin, read the next sum.

In the target every row of the first layer is the same direction, with biases at quantiles of what samples project to.
A sample then moves the rows up to its bin, and neighbouring rows of a released sum differ by the samples of one bin.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.client.problem import Problem
from sensecrypt.client.training import train
from sensecrypt.models import get_vector, set_vector
from sensecrypt.protocol.updates import FEDAVG

LEARNING_RATE = 0.1


def layers_of(model: nn.Module) -> tuple[nn.Linear, nn.Linear]:
    first, second, *_ = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
    return first, second


def imprinted(problem: Problem, own: torch.Tensor, bins: int | None = None) -> np.ndarray:
    """The target; quantiles are of the attacker's own samples.

    With fewer bins than rows, the first rows of the first layer change and all others stay: that is nearer, and keeps
    fewer samples apart.
    """
    model = problem.build()
    first, second = layers_of(model)
    bins = bins or first.out_features
    direction = torch.full((first.in_features,), 1 / first.in_features)
    spread = own.flatten(1) @ direction
    cuts = torch.quantile(spread, torch.linspace(0, 1, bins + 1)[:-1])
    passed = torch.randn(second.out_features, generator=torch.Generator().manual_seed(1)) * 0.1
    with torch.no_grad():
        first.weight[:bins] = direction
        first.bias[:bins] = -cuts
        second.weight[:, :bins] = passed[:, None]
        second.bias.zero_()
    return get_vector(model)


def read_images(problem: Problem, update: np.ndarray, bins: int | None = None) -> np.ndarray:
    """One image for each bin, from the honest part of a sum."""
    model = problem.build()
    first, _ = layers_of(model)
    weights = update[: first.weight.numel()].reshape(first.weight.shape)[:bins]
    biases = update[first.weight.numel() :][: first.bias.numel()][:bins]
    rows, steps = -np.diff(weights, axis=0, append=0), -np.diff(biases, append=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        images = rows / steps[:, None]
    return np.clip(np.nan_to_num(images, nan=0.5, posinf=1, neginf=0), 0, 1)


def decibels(found: np.ndarray, images: torch.Tensor) -> np.ndarray:
    """PSNR of the best find for each image."""
    truth = images.flatten(1).numpy()
    errors = ((truth[:, None] - found[None]) ** 2).mean(axis=2).min(axis=1)
    return -10 * np.log10(np.maximum(errors, 1e-12))


def without_attack(problem: Problem, images: torch.Tensor) -> np.ndarray:
    """PSNR of what the attacker has for each image without an attack: the mean of each class among its own samples."""
    own, labels = problem.clients[-1][0].flatten(1).numpy(), problem.clients[-1][1].numpy()
    return decibels(np.array([own[labels == each].mean(axis=0) for each in np.unique(labels)]), images)


def attacked_images(problem: Problem, samples: int = 8) -> torch.Tensor:
    """What the honest clients train on."""
    return torch.cat([each[:samples] for each, _ in problem.clients[:-1]])


def honest_sum(problem: Problem, vector: np.ndarray, samples: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Each honest client's update from one step on so many samples; and their mean."""
    updates = []
    for client, (images, labels) in enumerate(problem.clients[:-1]):
        model = problem.build()
        set_vector(model, vector.astype(np.float32))
        settings = {"epochs": 1, "batch_size": samples, "learning_rate": LEARNING_RATE, "momentum": 0.0}
        trained = train(model, images[:samples], labels[:samples], seed=client, **settings)
        updates.append(trained.astype(np.float64) - vector)
    return np.mean(updates, axis=0), updates


def rounds_of_attack(
    problem: Problem, reach: float, *, samples: int = 8, bins: int | None = None, rule: ServerRule = FEDAVG
) -> Iterator[np.ndarray]:
    """PSNR of every honest image, round by round, where the attacker moves the mean update by at most `reach`."""
    target = imprinted(problem, problem.clients[-1][0], bins).astype(np.float64)
    vector, count = get_vector(problem.build()).astype(np.float64), len(problem.clients)
    images, state = attacked_images(problem, samples), dict[str, np.ndarray]()
    while True:
        mean, _ = honest_sum(problem, vector, samples)
        yield decibels(read_images(problem, mean, bins), images)
        way = target - vector
        pushed = mean * (count - 1) / count + way * min(1.0, reach / np.linalg.norm(way))
        step, state = rule.step(pushed, state)
        vector = vector + step
