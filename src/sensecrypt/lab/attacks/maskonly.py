"""Labels from nothing but which positions are encrypted.

Selective encryption tells everybody where a client's sensitivities are large, and those hang on its classes. Whoever
knows the policy (the most sensitive first) and has labelled public data predicts the mask of any class counts:
the top of |w ⊙ Σ_c (n_c/K)·G_c|; and looks for the counts whose prediction agrees best with the mask in the upload.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt.lab.attacks.fills import prior
from sensecrypt.lab.attacks.ilrg import FloatMatrix, counts_summing_to
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.lab.attacks.public import class_gradients, some_places
from sensecrypt.rng import derive_rng
from sensecrypt.types import BoolVector

COORDINATES = 20_000
_PASSES = 40


def mask_only(observation: Observation, *, rng: np.random.Generator | None = None) -> FloatVector:
    """Class counts that explain the mask best, by moving samples between classes while that helps.

    A mask of everything or of nothing says nothing: the prior.

    Args:
        observation: of which only `encrypted` and the public data are looked at.
        rng: which coordinates of a large model to look at; None: always the same.
    """
    hidden = observation.encrypted
    if hidden.all() or not hidden.any():
        return prior(observation)
    generator = derive_rng(0, "mask-only coordinates") if rng is None else rng
    places = some_places(np.arange(hidden.size), COORDINATES, generator)
    if hidden[places].all() or not hidden[places].any():
        return prior(observation)
    predictors = class_gradients(observation, places) * observation.before[places].astype(np.float64)
    starts = [counts_summing_to(prior(observation), observation.samples).astype(np.float64)]
    starts += list(observation.samples * np.eye(observation.classes))
    scores = agreement(np.array(starts), predictors, hidden[places])
    return _climb(starts[int(scores.argmax())], predictors, hidden[places])


def agreement(histograms: FloatMatrix, predictors: FloatMatrix, hidden: BoolVector) -> FloatVector:
    """For each row of counts, the share of the hidden positions that it predicts to be hidden."""
    predicted = np.abs(histograms @ predictors)
    many = int(hidden.sum())
    threshold = np.partition(predicted, -many, axis=1)[:, -many][:, None]
    return np.asarray(((predicted >= threshold) & hidden).sum(axis=1) / many, dtype=np.float64)


def _climb(start: FloatVector, predictors: FloatMatrix, hidden: BoolVector) -> FloatVector:
    """Move samples from one class to another, many first, then fewer, while the agreement grows."""
    best, reached = start, float(agreement(start[None], predictors, hidden)[0])
    step = max(1, int(start.sum()) // 2)
    for _ in range(_PASSES):
        moves = _moves(best, step)
        scores = agreement(moves, predictors, hidden) if len(moves) else np.array([-1.0])
        if scores.max() > reached:
            best, reached = moves[int(scores.argmax())], float(scores.max())
        elif step == 1:
            break
        else:
            step //= 2
    return best


def _moves(histogram: FloatVector, step: int) -> FloatMatrix:
    """All histograms with `step` samples in another class."""
    classes = histogram.size
    unit: npt.NDArray[np.float64] = np.eye(classes)
    moved = [
        histogram + step * (unit[target] - unit[source])
        for source in np.flatnonzero(histogram >= step)
        for target in range(classes)
        if target != source
    ]
    return np.array(moved).reshape(-1, classes)
