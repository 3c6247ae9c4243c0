"""Statistics of the gradients of single labelled samples, per class: mean, variance, and how often they are 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import func, nn

from sensecrypt.checks import IntVector
from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import Observation

LARGEST = 1_000_000  # parameters: memory holds one gradient per public sample


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Statistics of the public samples: one row per class, one column per parameter."""

    mean: FloatMatrix  # of their gradients
    variance: FloatMatrix  # of their gradients, within the class
    zeros: np.ndarray[tuple[int, ...], np.dtype[np.int64]]  # how many have a gradient of exactly 0
    samples: IntVector  # their number per class


def class_statistics(observation: Observation) -> ClassStatistics:
    """The statistics at the model that the server sent, in evaluation mode: samples do not affect each other."""
    if observation.public is None:
        raise NotApplicable("observation", "has no public data", "give the adversary labelled samples of every class")
    if observation.before.size > LARGEST:
        problem = f"is of {observation.before.size:,} parameters"
        raise NotApplicable("observation", problem, f"attack a network of at most {LARGEST:,}")
    model = observation.model()
    weights = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}

    def loss(values: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        logits = func.functional_call(model, values, (image[None],))
        return nn.functional.cross_entropy(logits, label[None])

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    images, labels = observation.public
    means, variances, zeros, samples = [], [], [], []
    for label in range(observation.classes):
        members = images[labels == label]
        if len(members) < 2:
            fix = "give the adversary two labelled samples of every class"
            raise NotApplicable("observation", f"has {len(members)} public samples of class {label}", fix)
        parts = each(weights, members, torch.full((len(members),), label))
        rows = torch.cat([part.reshape(len(members), -1) for part in parts.values()], dim=1).numpy()
        means.append(rows.mean(axis=0, dtype=np.float64))
        variances.append(rows.var(axis=0, dtype=np.float64, ddof=1))
        zeros.append((rows == 0).sum(axis=0))
        samples.append(len(members))
    return ClassStatistics(np.array(means), np.array(variances), np.array(zeros), np.array(samples, dtype=np.int64))
