"""Gradients of the labelled samples that anybody has, at the model that the server sent."""

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
    """Mean gradients of `size` samples of one class at a time, groups × places, and the groups' classes.

    How much they differ within a class tells how much batches do, at a fraction of the cost of single samples.
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
    """At most `many` of the coordinates, drawn at random: large models say the same thing many times."""
    return places if places.size <= many else np.sort(rng.choice(places, many, replace=False))


def _public(observation: Observation) -> Samples:
    """The public data, in which every class must be."""
    fix = "give the adversary labelled samples of every class"
    if observation.public is None:
        raise NotApplicable("observation", "has no public data", fix)
    missing = np.setdiff1d(np.arange(observation.classes), observation.public[1].numpy())
    if missing.size:
        raise NotApplicable("observation", f"has no public sample of class {missing[0]}", fix)
    return observation.public


def _class_gradient(model: nn.Module, inputs: torch.Tensor, label: int) -> FloatVector:
    return mean_gradient(model, inputs, torch.full((len(inputs),), label)).astype(np.float64)
