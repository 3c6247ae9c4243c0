"""Labels from nothing but which positions are encrypted.

Selective encryption tells everybody where a client's sensitivities are large, and those hang on its classes. Whoever
knows the policy (the most sensitive first) and has labelled public data predicts the mask of any class counts:
the top of |w ⊙ Σ_c (n_c/K)·G_c|; and looks for the counts whose prediction agrees best with the mask in the upload.
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
    return climb(observation, partial(agreement, predictors=predictors, hidden=hidden[places]), passes=_PASSES)


def agreement(histograms: FloatMatrix, predictors: FloatMatrix, hidden: BoolVector) -> FloatVector:
    """For each row of counts, the share of the hidden positions that it predicts to be hidden."""
    predicted = np.abs(histograms @ predictors)
    many = int(hidden.sum())
    threshold = np.partition(predicted, -many, axis=1)[:, -many][:, None]
    return np.asarray(((predicted >= threshold) & hidden).sum(axis=1) / many, dtype=np.float64)
