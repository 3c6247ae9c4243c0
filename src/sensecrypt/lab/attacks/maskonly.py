"""Labels from the mask alone: from which positions are encrypted.

A mask of the most sensitive parameters shows where a client's sensitivities are large, which depends on its classes. An
adversary with labelled public data can predict the mask of any class counts, the top of |w ⊙ Σ_c (n_c/K)·G_c|. It
searches for the counts whose predicted mask agrees best with the one in the upload.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from sensecrypt.lab.attacks.climbing import climb
from sensecrypt.lab.attacks.fills import prior
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.lab.attacks.public import class_gradients, some_places
from sensecrypt.rng import derive_rng
from sensecrypt.types import BoolVector

COORDINATES = 20_000
_PASSES = 40


def mask_only(observation: Observation) -> FloatVector:
    """The class counts that explain the mask best; the prior if all or no parameters are encrypted.

    It uses only `encrypted` and the public data, and of a large model always the same coordinates.
    """
    hidden = observation.encrypted
    if hidden.all() or not hidden.any():
        return prior(observation)
    places = some_places(np.arange(hidden.size), COORDINATES, derive_rng(0, "mask-only coordinates"))
    if hidden[places].all() or not hidden[places].any():
        return prior(observation)
    predictors = class_gradients(observation, places) * observation.before[places].astype(np.float64)
    return climb(observation, partial(agreement, predictors=predictors, hidden=hidden[places]), passes=_PASSES)


def agreement(histograms: FloatMatrix, predictors: FloatMatrix, hidden: BoolVector) -> FloatVector:
    """For each row of counts, the share of the hidden positions that it predicts."""
    predicted = np.abs(histograms @ predictors)
    many = int(hidden.sum())
    threshold = np.partition(predicted, -many, axis=1)[:, -many][:, None]
    return np.asarray(((predicted >= threshold) & hidden).sum(axis=1) / many, dtype=np.float64)
