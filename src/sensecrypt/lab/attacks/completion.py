"""Hidden entries of a classifier's gradient, from the entries that are plain.

The matrix [g_W | g_b], classes × (inputs + 1), is the batch mean of (p − y)·[x, 1]ᵀ. Two facts hold for it whatever the
data: each column sums to 0 over the classes, as p and y both sum to 1; and it is near rank 1 in a network that was not
trained much, where all samples have about the same x. So an encrypted entry is no secret while enough of its row and
column are plain; zero-filling throws that away.
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

    Column sums of 0 are then met exactly, so that a column with one hidden entry comes out exact whatever the rank.
    What nothing determines (a hidden column, two hidden rows) stays small rather than invented.
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
    """The weighted least-squares u among those that sum to 0; rows without a plain entry take what the others leave."""
    floored = weights + _RIDGE * weights.max()
    free = products / floored
    return np.asarray(free - (free.sum() / (1 / floored).sum()) / floored, dtype=np.float64)


def _divided(products: FloatVector, weights: FloatVector) -> FloatVector:
    return np.asarray(products / (weights + _RIDGE * weights.max()), dtype=np.float64)


def _meet_sums(matrix: FloatMatrix, hidden: BoolMatrix) -> FloatMatrix:
    """Spread what is missing to a column sum of 0 evenly over the column's hidden entries: the nearest such matrix."""
    free = hidden.sum(axis=0)
    correction = np.where(free > 0, -matrix.sum(axis=0) / np.maximum(free, 1), 0.0)
    return matrix + hidden * correction


def complete_head(matrix: FloatMatrix, weight: FloatMatrix, bias: FloatVector, samples: int) -> FloatMatrix:
    """`complete`, and a bias column that is hidden altogether, as top-Γ masks leave it, from what counts must be.

    Rank 1 says that column is s·u, u being known, and that the mean embedding is v/s. Of all scales s that one is taken
    that makes counts whole and not negative: classes without samples have g_b[c] = p[c], which pins it.

    Args:
        matrix: [g_W | g_b] with NaN where it is hidden.
        weight: W of the layer, at which the gradient was taken.
        bias: b of the layer.
        samples: K.
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
    """From where counts would be negative downwards; p[c] hangs on the scale itself, so that one starts too high."""
    scales = np.geomspace(1e-2, 1e1, _SCALES)
    predictions = softmax(logits / scales[:, None] + bias, axis=1)
    possible = (predictions - scales[:, None] * u).min(axis=1) > -0.05
    return scales[possible] if possible.any() else scales[:1]


def implausibility(raw: FloatVector) -> float:
    """How far counts are from whole numbers that are not negative."""
    return float(np.abs(raw - np.maximum(np.rint(raw), 0.0)).sum())
