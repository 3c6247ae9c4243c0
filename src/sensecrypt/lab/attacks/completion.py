"""Estimates the hidden entries of a classifier's gradient from its plain entries.

The matrix [g_W | g_b], classes × (inputs + 1), is the batch mean of (p − y)·[x, 1]ᵀ. Two facts hold for it whatever the
data: each column sums to 0 over the classes, as p and y both sum to 1; and in a network that has trained little, all
samples have about the same x, so the matrix is nearly of rank 1. An encrypted entry therefore follows from the plain
entries of its row and column. Zero-filling does not use this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from sensecrypt.lab.attacks.ilrg import FloatMatrix, FloatVector, ilrg

_ROUNDS = 200
_SETTLED = 1e-10
_RIDGE = 1e-9
_SCALES = 300

BoolMatrix = npt.NDArray[np.bool_]


def complete(matrix: FloatMatrix) -> FloatMatrix:
    """Fill the NaN entries by u·vᵀ with Σu = 0, fitted to the plain ones by alternating least squares.

    Then the hidden entries are corrected so that columns sum to 0: a column with one hidden entry becomes exact at any
    rank. Entries that nothing determines (a hidden column, two hidden rows) stay small.
    """
    hidden = np.isnan(matrix)
    plain = np.where(hidden, 0.0, matrix)
    if not hidden.any() or not plain.any():
        return plain
    _, values, right = np.linalg.svd(plain, full_matrices=False)
    u, v = np.zeros(len(matrix)), values[0] * right[0]
    for _ in range(_ROUNDS):
        u = _balanced(plain @ v, ~hidden @ v**2)
        u /= np.linalg.norm(u) or 1.0
        v, last = _divided(u @ plain, u**2 @ ~hidden), v
        if np.abs(v - last).max() <= _SETTLED * np.abs(v).max():
            break
    return _meet_sums(np.where(hidden, np.outer(u, v), matrix), hidden)


def _balanced(products: FloatVector, weights: FloatVector) -> FloatVector:
    """The weighted least-squares u with sum 0; rows without a plain entry take the remainder of the others."""
    floored = weights + _RIDGE * weights.max()
    free = products / floored
    return np.asarray(free - (free.sum() / (1 / floored).sum()) / floored, dtype=np.float64)


def _divided(products: FloatVector, weights: FloatVector) -> FloatVector:
    return np.asarray(products / (weights + _RIDGE * weights.max()), dtype=np.float64)


def _meet_sums(matrix: FloatMatrix, hidden: BoolMatrix) -> FloatMatrix:
    """The nearest matrix with column sums of 0: hidden entries of a column share its remainder evenly."""
    free = hidden.sum(axis=0)
    correction = np.where(free > 0, -matrix.sum(axis=0) / np.maximum(free, 1), 0.0)
    return matrix + hidden * correction


def complete_head(matrix: FloatMatrix, weight: FloatMatrix, bias: FloatVector, samples: int) -> FloatMatrix:
    """`complete`; a bias column that is hidden entirely, as by top-Γ masks, is found from the counts it implies.

    With rank 1 that column is s·u with known u, and the mean embedding is v/s. The scale s is chosen so that counts are
    nearest to whole numbers that are not negative: classes without samples have g_b[c] = p[c], which determines it.

    `matrix` is [g_W | g_b] with NaN where it is hidden, at the layer's W and b, for K `samples`.
    """
    filled = complete(matrix)
    if not np.isnan(matrix[:, -1]).all() or not filled[:, :-1].any():
        return filled
    left, values, right = np.linalg.svd(filled[:, :-1], full_matrices=False)
    u, embedding = left[:, 0], values[0] * right[0]
    if embedding.sum() < 0:  # embeddings are outputs of a ReLU
        u, embedding = -u, -embedding
    candidates = []
    for scale in _scales(u, weight @ embedding, bias):
        filled[:, -1] = scale * u
        raw = ilrg(filled[:, :-1], filled[:, -1], weight, bias, samples)
        candidates.append((implausibility(raw), scale))
    filled[:, -1] = min(candidates)[1] * u
    return filled


def _scales(u: FloatVector, logits: FloatVector, bias: FloatVector) -> FloatVector:
    """The scales to try: those at which counts are not negative, or nearly so. p[c] depends on the scale."""
    scales = np.geomspace(1e-2, 1e1, _SCALES)
    predictions = softmax(logits / scales[:, None] + bias, axis=1)
    possible = (predictions - scales[:, None] * u).min(axis=1) > -0.05
    return scales[possible] if possible.any() else scales[:1]


def implausibility(raw: FloatVector) -> float:
    """How far counts are from whole numbers that are not negative."""
    return float(np.abs(raw - np.maximum(np.rint(raw), 0.0)).sum())
