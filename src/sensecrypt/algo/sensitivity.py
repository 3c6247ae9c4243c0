"""Sensitivity: how much the loss depends on each parameter (paper, "Definition of Model Parameter Sensitivity", Eq. 2).

Γ(w) ≈ |w · ∂L/∂w|: the first-order change of the loss if the parameter were set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import InvalidInput

Array = npt.NDArray[np.floating[Any]]


@overload
def sensitivity(weights: Array, gradients: Array) -> Array: ...
@overload
def sensitivity(weights: Sequence[Array], gradients: Sequence[Array]) -> list[Array]: ...
def sensitivity(weights: Array | Sequence[Array], gradients: Array | Sequence[Array]) -> Array | list[Array]:
    """Return |w·g|, element by element.

    Args:
        weights: an array of any shape, or one array per layer.
        gradients: the gradient of the loss, in the same shapes.

    Returns:
        An array of the same shape, or a list of arrays.
    """
    if isinstance(weights, (list, tuple)) and any(np.ndim(layer) for layer in weights):
        if not isinstance(gradients, (list, tuple)) or len(gradients) != len(weights):
            raise InvalidInput("gradients", f"is not a list of {len(weights)} arrays", "pass one array per layer")
        pairs = enumerate(zip(weights, gradients, strict=True))
        return [_layer(w, g, f"[{index}]") for index, (w, g) in pairs]
    return _layer(weights, gradients, "")


def _layer(weights: npt.ArrayLike, gradients: npt.ArrayLike, index: str) -> Array:
    w, g = _floats("weights" + index, weights), _floats("gradients" + index, gradients)
    if w.shape != g.shape:
        problem = f"has shape {g.shape}, but weights has shape {w.shape}"
        raise InvalidInput(f"gradients{index}", problem, "pass both from the same model")
    with np.errstate(over="ignore"):
        product: Array = np.abs(w * g)
    if not np.isfinite(product).all():
        problem = "is NaN or infinite, or overflows when multiplied by the weights"
        raise InvalidInput(f"gradients{index}", problem, "check the training step for divergence")
    return product


def _floats(argument: str, values: npt.ArrayLike) -> Array:
    array = np.asarray(values)
    if array.size == 0:
        raise InvalidInput(argument, "is empty", "pass at least one number")
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise InvalidInput(argument, f"has dtype {array.dtype}", "pass real numbers")
    floats: Array = array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise InvalidInput(argument, "has NaN or infinite values", "check the training step for divergence")
    return floats
