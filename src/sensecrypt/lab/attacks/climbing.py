"""A search over class counts: it moves samples from one class to another while a score grows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sensecrypt.lab.attacks.fills import prior
from sensecrypt.lab.attacks.ilrg import FloatMatrix, counts_summing_to
from sensecrypt.lab.attacks.observation import FloatVector, Observation


def climb(observation: Observation, score: Callable[[FloatMatrix], FloatVector], *, passes: int) -> FloatVector:
    """The best class counts found, starting from the prior and from all samples in one class.

    Args:
        observation: gives the number of samples and classes.
        score: of each row of a matrix of class counts; larger is better.
        passes: the most moves; the first ones move many samples at a time.
    """
    unit = np.eye(observation.classes)
    guessed = counts_summing_to(prior(observation), observation.samples).astype(np.float64)
    tried = np.array([guessed, *(observation.samples * unit)])
    scores, best, reached = score(tried), guessed, -np.inf
    step = max(1, observation.samples // 2)
    for number in range(passes + 1):
        if len(tried) and scores.max() > reached:
            best, reached = tried[int(scores.argmax())], float(scores.max())
        elif step == 1:
            break
        elif number:
            step //= 2
        sources = np.flatnonzero(best >= step)
        tried = np.array([best + step * (target - unit[source]) for source in sources for target in unit])
        scores = score(tried) if len(tried) else scores
    return np.asarray(best, dtype=np.float64)
