"""What single labelled samples do to every parameter: mean and variance of their gradients, how often they are 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import func, nn

from sensecrypt.checks import IntVector
from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import Observation

LARGEST = 1_000_000  # parameters: every public sample has a gradient of that many numbers


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Of the public samples of each class, classes × parameters.

    Attributes:
        mean: of their gradients.
        variance: of their gradients, within the class.
        zeros: how many of them leave a parameter exactly where it was.
        samples: how many there are of each class.
    """

    mean: FloatMatrix
    variance: FloatMatrix
    zeros: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    samples: IntVector


def class_statistics(observation: Observation) -> ClassStatistics:
    """At the model that the server sent, in evaluation mode: samples do not influence each other."""
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
