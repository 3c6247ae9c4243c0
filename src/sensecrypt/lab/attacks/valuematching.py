"""Labels from plain values whose positions are secret, by comparing them with the model that they started from.

In a cluster with a secret order the aggregator does not know the parameter of a value. First, numbers that did not move
give rough class counts (`unmoved`). Then values are assigned to parameters as these counts predict (`placing`), new
counts are estimated from the gradients there (`prototype`), and both steps are repeated. If a step moves values past
many others, few can be assigned, and the first counts are the result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.classstats import class_statistics
from sensecrypt.lab.attacks.fills import prior
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.lab.attacks.placing import Placement, place
from sensecrypt.lab.attacks.prototype import prototype
from sensecrypt.lab.attacks.unmoved import unmoved_counts

_DOUBTS = (0.3, 0.1, 0.03)  # of the variance between classes, round by round
_FEWEST = 100  # moved values that are assigned: with fewer, the previous counts are kept


def value_matching(observation: Observation) -> FloatVector:
    """Class counts from `unplaced`; the prior if it is empty."""
    unplaced = observation.unplaced
    if unplaced is None:
        raise NotApplicable("observation", "has no unplaced values", "observe a cluster with a secret order")
    if unplaced.values.size == 0:
        return prior(observation)
    statistics = class_statistics(observation)
    counts = unmoved_counts(observation, unplaced, statistics)
    shares, spread = 0.7 * counts / counts.sum() + 0.3 / observation.classes, 0.1
    mean = np.vstack([unplaced.values, unplaced.others]).mean(axis=0)
    for doubt in _DOUBTS:
        found = place(observation, unplaced, statistics, shares, doubt=doubt, spread=spread)
        last = doubt == _DOUBTS[-1]
        placed = _placed(observation, found, unplaced.values if last else mean)
        if np.count_nonzero(placed.visible) < _FEWEST:
            break
        counts = prototype(placed)
        shares, spread = counts / counts.sum(), 1.5 * found.spread
    return counts


def _placed(observation: Observation, found: Placement, values: FloatVector) -> Observation:
    """The observation with the gradients of assigned values, without those that did not move.

    Small moves are easier to assign than large ones, so a fit to unmoved values would favour classes that move little.
    """
    unplaced = observation.unplaced
    gradient = np.full(observation.before.size, np.nan)
    if unplaced is not None:
        moved = observation.before[found.parameters].astype(np.float64) - values[found.slots]
        far = np.abs(moved) > 2 * unplaced.step
        gradient[found.parameters[far]] = moved[far] / unplaced.scale
    return replace(observation, gradient=gradient)
