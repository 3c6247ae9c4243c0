"""Adversaries that fill the hidden part of the last layer's gradient in and run iLRG; and the one that sees nothing."""

from __future__ import annotations

import numpy as np

from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.completion import complete_head
from sensecrypt.lab.attacks.ilrg import ilrg
from sensecrypt.lab.attacks.observation import FloatVector, Head, Observation, find_head


def prior(observation: Observation) -> FloatVector:
    """K/C of every class."""
    return np.full(observation.classes, observation.samples / observation.classes)


def zero_fill(observation: Observation) -> FloatVector:
    """What the paper evaluates: iLRG as if hidden gradients were 0.

    With all of the head hidden this is K times what the head predicts from its bias alone, near the prior.
    """
    if not observation.visible.any():
        return prior(observation)
    return ilrg_on(observation, observation.zero_filled)


def zero_fill_direction(observation: Observation) -> FloatVector:
    """Zero-fill, with embeddings that are too large capped as a whole.

    It differs from `zero_fill` only where an entry of the bias gradient is hidden while parts of its row are in sight.
    """
    if not observation.visible.any():
        return prior(observation)
    return ilrg_on(observation, observation.zero_filled, keep_direction=True)


def stale_fill(observation: Observation) -> FloatVector:
    """Run iLRG with the last exposed value of hidden coordinates (MaskCrypt, Hu and Li 2024), 0 if none ever was."""
    if observation.stale is None:
        raise NotApplicable("observation", "has no stale values", "observe the client in an earlier round, too")
    filled = np.where(observation.visible, observation.gradient, observation.stale)
    if np.isnan(filled).all():
        return prior(observation)
    return ilrg_on(observation, np.nan_to_num(filled, nan=0.0))


def completion(observation: Observation) -> FloatVector:
    """Run iLRG on the head's gradient, hidden entries completed."""
    head, before = biased_head(observation), observation.before.astype(np.float64)
    places = np.column_stack([head.weight, head.bias])
    matrix = observation.gradient[places]
    if np.isnan(matrix).all():
        return prior(observation)
    filled = observation.zero_filled
    filled[places] = complete_head(matrix, before[head.weight], before[head.bias], observation.samples)
    return ilrg_on(observation, filled)


def ilrg_on(observation: Observation, gradient: FloatVector, *, keep_direction: bool = False) -> FloatVector:
    """Run iLRG of a whole model's gradient, nothing of it hidden."""
    head, before = biased_head(observation), observation.before.astype(np.float64)
    return ilrg(
        gradient[head.weight],
        gradient[head.bias],
        before[head.weight],
        before[head.bias],
        observation.samples,
        keep_direction=keep_direction,
    )


def biased_head(observation: Observation) -> Head:
    """The classifier, refused without a bias: its gradient is what the counts are read from."""
    head = find_head(observation.build(), observation.classes)
    if head.bias.size == 0:
        raise NotApplicable(
            "observation", "is of a classifier without bias", "attack with 'prototype', which needs none"
        )
    return head
