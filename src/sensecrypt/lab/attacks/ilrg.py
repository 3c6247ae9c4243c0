"""Class counts from the last dense layer's gradient: iLRG (Ma et al., ICLR 2023), the paper's label attack.

With p_k the prediction and x_k the embedding of sample k, the batch-mean gradients of the layer are
g_W[c] = mean (p_k[c] − 1[y_k = c])·x_k and g_b[c] = mean (p_k[c] − 1[y_k = c]). Their quotient is near the mean
embedding of class c. The layer's output for it is about the prediction for that class, and with these predictions g_b
is linear in the counts. The result is exact if all samples of a class have the same prediction. This nearly holds in an
untrained network, and fails in a trained one.
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

_ZERO_BIAS = 1e-64  # the published code divides by it where g_b[c] is 0
_LARGEST_EXPONENT = 10  # and caps the decimal exponent of a component of a quotient at this, up and down


def ilrg(
    g_weight: npt.ArrayLike,
    g_bias: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike,
    samples: int,
    *,
    keep_direction: bool = False,
) -> FloatVector:
    """The number of samples of each class, not rounded.

    Args:
        g_weight: g_W, classes × inputs: the batch-mean gradient.
        g_bias: g_b, one number per class. A layer without bias is refused: embeddings and equations need g_b.
        weight: W of the layer.
        bias: b of the layer.
        samples: K.
        keep_direction: how too large quotients are capped, such as all where g_b[c] is 0. False, as published: the
            decimal exponent of each component to 10, which changes the row's direction. True: the row as a whole.
    """
    g_w, w = np.asarray(g_weight, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    if np.size(g_bias) == 0:
        raise NotApplicable("g_bias", "is empty: the layer has no bias", "attack with 'prototype', which needs none")
    g_b, b = checks.finite_vector("g_bias", g_bias), checks.finite_vector("bias", bias)
    if g_w.ndim != 2 or g_w.shape != w.shape or g_b.shape != g_w.shape[:1] or b.shape != g_b.shape:
        problem = f"has shape {g_w.shape}, W {w.shape}, g_b {g_b.shape}, b {b.shape}"
        raise InvalidInput("g_weight", problem, "pass one row and one bias per class")
    checks.whole("samples", samples, low=1)
    predictions = softmax(_embeddings(g_w, g_b, keep_direction=keep_direction) @ w.T + b, axis=1)
    classes = g_b.size
    system = np.vstack([np.ones(classes), predictions.T - np.eye(classes)])
    return np.asarray(np.linalg.pinv(system) @ np.concatenate([[samples], samples * g_b]), dtype=np.float64)


def _embeddings(g_w: FloatMatrix, g_b: FloatVector, *, keep_direction: bool) -> FloatMatrix:
    """ê_c = g_W[c] / g_b[c], capped; where g_b[c] is 0 it is very large, so that the softmax saturates."""
    divisor = np.where(g_b == 0, _ZERO_BIAS, g_b)[:, None]
    if keep_direction:
        largest = np.abs(g_w).max(axis=1, keepdims=True)
        bound = 10.0**_LARGEST_EXPONENT * np.abs(divisor)
        return g_w * np.minimum(1.0, bound / np.where(largest == 0, 1.0, largest)) / divisor
    exponents = _decimal_exponents(g_w) - _decimal_exponents(divisor)
    beyond = exponents - np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    return g_w * 10.0**-beyond / divisor


def _decimal_exponents(values: FloatMatrix) -> FloatMatrix:
    """The exponent of each number in scientific notation; 0 for 0."""
    return np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))


def counts(raw: npt.ArrayLike, samples: int) -> IntVector:
    """Whole counts for LeAcc and LnAcc: rounded, and 0 where they are negative or above K."""
    rounded = np.rint(np.maximum(checks.finite_vector("raw", raw), 0.0))
    return np.where(rounded > samples, 0, rounded).astype(np.int64)


def counts_summing_to(raw: npt.ArrayLike, samples: int) -> IntVector:
    """`counts`, changed by one where rounding changed most until they sum to K: image attacks need K labels."""
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
