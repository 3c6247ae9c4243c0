"""Gradients of labelled public samples at the model that the server sent."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sensecrypt.checks import IntVector
from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import FloatVector, Observation, Samples
from sensecrypt.models import mean_gradient


def class_gradients(observation: Observation, places: IntVector) -> FloatMatrix:
    """G_c, the mean gradient of each class: classes × places."""
    inputs, labels = _public(observation)
    model = observation.model()
    groups = [inputs[labels == label] for label in range(observation.classes)]
    return np.array([_class_gradient(model, members, label)[places] for label, members in enumerate(groups)])


def group_gradients(observation: Observation, places: IntVector, *, size: int) -> tuple[FloatMatrix, IntVector]:
    """Mean gradients of groups of `size` samples of one class, groups × places, and the class of each group.

    Their differences within a class estimate those of samples, at a fraction of the cost of single gradients.
    """
    inputs, labels = _public(observation)
    model = observation.model()
    rows, classes = [], []
    for label in range(observation.classes):
        members = inputs[labels == label]
        for start in range(0, max(1, len(members) - size + 1), size):
            rows.append(_class_gradient(model, members[start : start + size], label)[places])
            classes.append(label)
    return np.array(rows), np.array(classes, dtype=np.int64)


def some_places(places: IntVector, many: int, rng: np.random.Generator) -> IntVector:
    """At most `many` of the coordinates, drawn at random: those of large models are redundant."""
    return places if places.size <= many else np.sort(rng.choice(places, many, replace=False))


def _public(observation: Observation) -> Samples:
    """The public data; refused if a class is missing."""
    fix = "give the adversary labelled samples of every class"
    if observation.public is None:
        raise NotApplicable("observation", "has no public data", fix)
    missing = np.setdiff1d(np.arange(observation.classes), observation.public[1].numpy())
    if missing.size:
        raise NotApplicable("observation", f"has no public sample of class {missing[0]}", fix)
    return observation.public


def _class_gradient(model: nn.Module, inputs: torch.Tensor, label: int) -> FloatVector:
    return mean_gradient(model, inputs, torch.full((len(inputs),), label)).astype(np.float64)
