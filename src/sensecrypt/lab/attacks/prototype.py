"""Labels from any plain coordinates and labelled public data: hiding the last layer does not stop this one.

The gradient of a batch is the mean of its samples' gradients, so g is near Σ_c (n_c/K)·G_c with G_c the mean gradient
of class c, which whoever has samples of each class computes at the model that the server sent. Counts are what explains
the visible coordinates best, none being negative. "Best" is measured in units of how much samples of one class differ
(generalised least squares): with the plain sum of squares a few large coordinates decide.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from sensecrypt.lab.attacks.fills import prior
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.lab.attacks.public import group_gradients, some_places
from sensecrypt.rng import derive_rng

COORDINATES = 6_000
_GROUP = 5
_RIDGE = 3e-3  # of the total variance: samples are fewer than coordinates, so their covariance is not of full rank


def prototype(observation: Observation, *, rng: np.random.Generator | None = None) -> FloatVector:
    """Non-negative least squares of the visible gradient on the classes' mean gradients, scaled to sum to K.

    Args:
        observation: with public data.
        rng: which coordinates of a large model to look at; None: always the same.
    """
    generator = derive_rng(0, "prototype coordinates") if rng is None else rng
    places = some_places(np.flatnonzero(observation.visible), COORDINATES, generator)
    if places.size == 0:
        return prior(observation)
    gradients, labels = group_gradients(observation, places, size=_GROUP)
    means = np.array([gradients[labels == label].mean(axis=0) for label in range(observation.classes)])
    columns = np.column_stack([means.T, observation.gradient[places]])
    root = _root(_in_units_of(columns, gradients - means[labels]))
    shares, _ = nnls(root[:, :-1], root[:, -1])
    total = shares.sum()
    return prior(observation) if total == 0 else np.asarray(observation.samples * shares / total, dtype=np.float64)


def _in_units_of(columns: FloatMatrix, noise: FloatMatrix) -> FloatMatrix:
    """Inner products of the columns under the inverse of (noise covariance + ridge), by Woodbury's identity."""
    spread = noise / np.sqrt(len(noise))
    covariance = spread @ spread.T
    ridge = _RIDGE * float(np.trace(covariance))
    inner = np.asarray(columns.T @ columns, dtype=np.float64)
    if ridge == 0:  # one group a class: nothing to weigh by
        return inner
    across = spread @ columns
    regular = covariance + ridge * np.eye(len(noise))
    return np.asarray((inner - across.T @ np.linalg.solve(regular, across)) / ridge, dtype=np.float64)


def _root(gram: FloatMatrix) -> FloatMatrix:
    """A square matrix with these inner products of columns: the same least-squares problem, small."""
    scale = float(np.abs(gram).max()) or 1.0
    values, vectors = np.linalg.eigh(gram / scale)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, dtype=np.float64)
