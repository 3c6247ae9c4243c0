"""Adversaries that estimate the hidden part of the last layer's gradient and run iLRG; `prior` sees nothing."""

from __future__ import annotations

import numpy as np

from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.completion import complete_head
from sensecrypt.lab.attacks.ilrg import ilrg
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.models import Head, find_head


def prior(observation: Observation) -> FloatVector:
    """K/C of every class."""
    return np.full(observation.classes, observation.samples / observation.classes)


def zero_fill(observation: Observation, *, keep_direction: bool = False) -> FloatVector:
    """The paper's attacker: iLRG with hidden gradients set to 0.

    With all of the head hidden this is K times what the head predicts from its bias alone, near the prior.
    """
    if not observation.visible.any():
        return prior(observation)
    return ilrg_on(observation, observation.zero_filled, keep_direction=keep_direction)


def stale_fill(observation: Observation) -> FloatVector:
    """Run iLRG with the last exposed value of each hidden coordinate (MaskCrypt, Hu and Li 2024), or 0 without one."""
    if observation.stale is None:
        raise NotApplicable("observation", "has no stale values", "observe the client in an earlier round, too")
    filled = np.where(observation.visible, observation.gradient, observation.stale)
    if np.isnan(filled).all():
        return prior(observation)
    return ilrg_on(observation, np.nan_to_num(filled, nan=0.0))


def completion(observation: Observation) -> FloatVector:
    """Run iLRG on the head's gradient with its hidden entries completed."""
    head, before = biased_head(observation), observation.before.astype(np.float64)
    places = np.column_stack([head.weight, head.bias])
    matrix = observation.gradient[places]
    if np.isnan(matrix).all():
        return prior(observation)
    filled = observation.zero_filled
    filled[places] = complete_head(matrix, before[head.weight], before[head.bias], observation.samples)
    return ilrg_on(observation, filled)


def ilrg_on(observation: Observation, gradient: FloatVector, *, keep_direction: bool = False) -> FloatVector:
    """Run iLRG on the gradient of a whole model."""
    head, before = biased_head(observation), observation.before.astype(np.float64)
    (g_weight, g_bias), (weight, bias) = ((each[head.weight], each[head.bias]) for each in (gradient, before))
    return ilrg(g_weight, g_bias, weight, bias, observation.samples, keep_direction=keep_direction)


def biased_head(observation: Observation) -> Head:
    """The classifier, refused if it has no bias: the counts follow from the bias gradient."""
    head = find_head(observation.build(), observation.classes)
    if head.bias.size == 0:
        raise NotApplicable(
            "observation", "is of a classifier without bias", "attack with 'prototype', which needs none"
        )
    return head
