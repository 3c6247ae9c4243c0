"""Class counts from the last dense layer's gradient: iLRG (Ma et al., ICLR 2023), the paper's label attack.

With p_k the prediction and x_k the embedding of sample k, the batch-mean gradients of the layer are
g_W[c] = mean (p_k[c] − 1[y_k = c])·x_k and g_b[c] = mean (p_k[c] − 1[y_k = c]). Their quotient is near the mean
embedding of class c; feeding it to the layer tells what the model predicts for that class; and then g_b is linear in
the counts. Exact when all samples of a class have one prediction, as nearly in a network that was not trained yet; a
trained one defeats it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, NotApplicable

FloatVector = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float64]
IntVector = npt.NDArray[np.int64]

_ZERO_BIAS = 1e-64  # what the published code divides by where g_b[c] is 0
_LARGEST_EXPONENT = 10  # … and how many powers of ten it lets a component of a quotient have, up or down


def ilrg(
    g_weight: npt.ArrayLike,
    g_bias: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike,
    samples: int,
    *,
    keep_direction: bool = False,
) -> FloatVector:
    """How many samples of each class, before any rounding.

    Args:
        g_weight: g_W, classes × inputs: the batch-mean gradient.
        g_bias: g_b, one number a class. A layer without bias has none and is refused: without it neither the
            embeddings nor the equations for the counts can be formed.
        weight: W of the layer.
        bias: b of the layer.
        samples: K.
        keep_direction: how quotients that are too large are capped, as all are where g_b[c] is 0. False, as published:
            each component by itself, its decimal exponent to 10, which keeps its sign and its leading digits but loses
            which components were large. True: the row as a whole, which keeps its direction.
    """
    g_w, w = np.asarray(g_weight, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    if np.size(g_bias) == 0:
        raise NotApplicable("g_bias", "is empty: the layer has no bias", "attack with 'prototype', which needs none")
    g_b, b = checks.finite_vector("g_bias", g_bias), checks.finite_vector("bias", bias)
    if g_w.ndim != 2 or g_w.shape != w.shape or g_b.shape != g_w.shape[:1] or b.shape != g_b.shape:
        problem = f"has shape {g_w.shape}, W {w.shape}, g_b {g_b.shape}, b {b.shape}"
        raise InvalidInput("g_weight", problem, "pass one row and one bias a class")
    checks.whole("samples", samples, low=1)
    predictions = softmax(_embeddings(g_w, g_b, keep_direction=keep_direction) @ w.T + b, axis=1)
    classes = g_b.size
    system = np.vstack([np.ones(classes), predictions.T - np.eye(classes)])
    return np.asarray(np.linalg.pinv(system) @ np.concatenate([[samples], samples * g_b]), dtype=np.float64)


def _embeddings(g_w: FloatMatrix, g_b: FloatVector, *, keep_direction: bool) -> FloatMatrix:
    """ê_c = g_W[c] / g_b[c], capped; where g_b[c] is 0, hugely scaled g_W[c], so that the softmax saturates."""
    divisor = np.where(g_b == 0, _ZERO_BIAS, g_b)[:, None]
    if keep_direction:
        largest = np.abs(g_w).max(axis=1, keepdims=True)
        bound = 10.0**_LARGEST_EXPONENT * np.abs(divisor)
        return g_w * np.minimum(1.0, bound / np.where(largest == 0, 1.0, largest)) / divisor
    exponents = _decimal_exponents(g_w) - _decimal_exponents(divisor)
    beyond = exponents - np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    return g_w * 10.0**-beyond / divisor


def _decimal_exponents(values: FloatMatrix) -> FloatMatrix:
    """Of each number in scientific notation; 0 has 0."""
    return np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))


def counts(raw: npt.ArrayLike, samples: int) -> IntVector:
    """The whole numbers that LeAcc and LnAcc are measured with: below 0 is 0, rounded, above K is 0."""
    rounded = np.rint(np.maximum(checks.finite_vector("raw", raw), 0.0))
    return np.where(rounded > samples, 0, rounded).astype(np.int64)


def counts_summing_to(raw: npt.ArrayLike, samples: int) -> IntVector:
    """`counts`, moved by one where rounding went furthest until they sum to K: image attacks need K labels."""
    wanted = checks.whole("samples", samples, low=1)
    values = checks.finite_vector("raw", raw)
    whole = counts(values, wanted)
    while (excess := int(whole.sum()) - wanted) != 0:
        residue = whole - values  # positive: rounded up
        if excess > 0:
            candidates = np.flatnonzero(whole > 0)
            order = candidates[np.argsort(-residue[candidates], kind="stable")]
            whole[order[:excess]] -= 1
        else:
            order = np.argsort(residue, kind="stable")
            whole[order[:-excess]] += 1
    return whole
