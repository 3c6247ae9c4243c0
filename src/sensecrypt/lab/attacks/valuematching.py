"""Labels from plain values whose positions are secret, by comparing them with the model that they started from.

The aggregator of a cluster with a secret order sees numbers without names. First, which numbers did not move at all
tell what the client's samples leave alone (`unmoved`), and so its classes roughly. Then values are given back to
parameters as those counts predict (`placing`), counts are read off the gradients there (`prototype`), and both are
repeated. Where a step moves values past many others, few of them are placed, and the first answer stands.
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
_FEWEST = 100  # moved values in place: with fewer, counts would hang on them alone


def value_matching(observation: Observation) -> FloatVector:
    """Class counts from `unplaced`: none of it, and there is the prior."""
    unplaced = observation.unplaced
    if unplaced is None:
        raise NotApplicable("observation", "has no unplaced values", "observe a cluster with a secret order")
    if unplaced.values.size == 0:
        return prior(observation)
    statistics = class_statistics(observation)
    counts = unmoved_counts(observation, unplaced, statistics)
    shares, spread = 0.7 * counts / counts.sum() + 0.3 / observation.classes, 0.1
    everybody = np.vstack([unplaced.values, unplaced.others]).mean(axis=0)
    for doubt in _DOUBTS:
        found = place(observation, unplaced, statistics, shares, doubt=doubt, spread=spread)
        last = doubt == _DOUBTS[-1]
        placed = _placed(observation, found, unplaced.values if last else everybody)
        if np.count_nonzero(placed.visible) < _FEWEST:
            break
        counts = prototype(placed)
        shares, spread = counts / counts.sum(), 1.5 * found.spread
    return counts


def _placed(observation: Observation, found: Placement, values: FloatVector) -> Observation:
    """The observation with the gradients of placed values; those that did not move are left out.

    Small moves are placed more easily than large ones, and a fit to what stayed where it was would only find the
    classes that move little.
    """
    unplaced = observation.unplaced
    gradient = np.full(observation.before.size, np.nan)
    if unplaced is not None:
        moved = observation.before[found.parameters].astype(np.float64) - values[found.slots]
        far = np.abs(moved) > 2 * unplaced.step
        gradient[found.parameters[far]] = moved[far] / unplaced.scale
    return replace(observation, gradient=gradient)
