"""Labels from any plain coordinates and labelled public data, even if the last layer is hidden.

The gradient of a batch is the mean of its samples' gradients, so g is near Σ_c (n_c/K)·G_c. G_c, the mean gradient of
class c, can be computed from labelled samples at the model that the server sent. The counts are those, none negative,
that explain the visible coordinates best by generalised least squares: errors are weighed by how much samples of one
class differ, as otherwise a few large coordinates would decide.
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


def prototype(observation: Observation) -> FloatVector:
    """Non-negative least squares of the visible gradient on the classes' mean gradients, scaled to sum to K.

    Of a large model it uses always the same coordinates.
    """
    places = some_places(np.flatnonzero(observation.visible), COORDINATES, derive_rng(0, "prototype coordinates"))
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
    if ridge == 0:  # one group per class: no differences to weigh by
        return inner
    across = spread @ columns
    regular = covariance + ridge * np.eye(len(noise))
    return np.asarray((inner - across.T @ np.linalg.solve(regular, across)) / ridge, dtype=np.float64)


def _root(gram: FloatMatrix) -> FloatMatrix:
    """A small square matrix whose columns have these inner products: an equal least-squares problem."""
    scale = float(np.abs(gram).max()) or 1.0
    values, vectors = np.linalg.eigh(gram / scale)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, dtype=np.float64)
