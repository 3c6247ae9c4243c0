"""Validation of arguments: each function returns the checked value in its canonical form, or raises `InvalidInput`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import InvalidInput

FloatVector = npt.NDArray[np.float64]
IntVector = npt.NDArray[np.int64]


def finite_vector(argument: str, values: npt.ArrayLike) -> FloatVector:
    """Return `values` flattened to float64; raise if it is empty or contains NaN or infinity."""
    array = numeric_array(argument, values, kinds="fiu")
    vector = array.astype(np.float64, copy=False).ravel()
    if vector.size == 0:
        raise InvalidInput(argument, "is empty", "pass at least one number")
    # If an element is NaN or infinite, so is the sum: one pass without a temporary array finds out.
    with np.errstate(over="ignore", invalid="ignore"):
        total = vector.sum()
    if not math.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            problem = f"has {bad.size:,} NaN or infinite values, the first at index {bad[0]:,}"
            raise InvalidInput(argument, problem, "check the training step for divergence")
    return vector


def numeric_array(argument: str, values: npt.ArrayLike, *, kinds: str) -> npt.NDArray[Any]:
    """Return `values` as an array whose dtype is of one of the kinds: f floating, i signed, u unsigned."""
    fix = "pass one array of real numbers" if "f" in kinds else "pass one array of whole numbers"
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(argument, "is a masked array", "fill or remove the masked elements first")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(argument, "is not an array of numbers", fix) from None
    if array.size and array.dtype.kind not in kinds:
        raise InvalidInput(argument, f"has elements of type {array.dtype}", fix)
    return array


def sensitivity_vector(argument: str, values: npt.ArrayLike) -> FloatVector:
    """Return `values` as a finite vector; raise if one is negative or none is positive."""
    vector = finite_vector(argument, values)
    if vector.min() < 0:
        raise InvalidInput(argument, "has negative values", "pass absolute values, as sensitivity() returns them")
    if vector.max() == 0:
        raise InvalidInput(argument, "is zero everywhere", "compute gradients on at least one training sample first")
    return vector


def same_length(argument: str, vector: npt.NDArray[np.generic], expected: int, of: str) -> None:
    """Raise unless `vector` has `expected` elements, as many as `of`."""
    if vector.size != expected:
        problem = f"has {vector.size:,} elements, but {of} has {expected:,}"
        raise InvalidInput(argument, problem, "pass both from the same model")


def number(argument: str, value: float, *, low: float, high: float = math.inf, open_low: bool = False) -> float:
    """Return `value` as a float; raise unless it is finite and in [low, high], or in (low, high] with `open_low`."""
    bounds = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if math.isfinite(high) else ')'}"
    try:
        checked = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(argument, "is not a number", f"pass a number in {bounds}") from None
    if not math.isfinite(checked) or checked < low or checked > high or (open_low and checked == low):
        raise InvalidInput(argument, f"is {checked:g}", f"pass a number in {bounds}")
    return checked


def whole(argument: str, value: int, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int; raise unless it is a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidInput(argument, f"is {value!r}", "pass a whole number")
    if value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high:,}"
        shown = f"{value:,}" if abs(value) < 2**64 else "out of range"  # Python refuses to print very long numbers
        raise InvalidInput(argument, f"is {shown}", f"pass at least {low:,}{upper}")
    return int(value)


def permutation(argument: str, values: npt.ArrayLike, size: int) -> IntVector:
    """Return `values` as int64; raise unless it contains each of 0 … size − 1 exactly once."""
    order = numeric_array(argument, values, kinds="iu")
    fix = f"pass each index of 0 … {size - 1:,} exactly once"
    if order.ndim != 1:
        raise InvalidInput(argument, f"has {order.ndim} dimensions", fix)
    same_length(argument, order, size, "the model")
    if order.min() < 0 or order.max() >= size:
        raise InvalidInput(argument, f"has an index outside 0 … {size - 1:,}", fix)
    seen = np.zeros(size, dtype=bool)
    seen[order] = True
    if not seen.all():
        raise InvalidInput(argument, "repeats an index, so it is not a permutation", fix)
    return order.astype(np.int64, copy=False)


def choice(argument: str, value: str, allowed: Sequence[str]) -> str:
    """Return `value`; raise unless it is one of `allowed`."""
    if value not in allowed:
        raise InvalidInput(argument, f"is {value!r}", f"choose one of {', '.join(map(repr, allowed))}")
    return value
