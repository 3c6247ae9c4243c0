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
    """`values` flattened to float64: at least one number, none of them NaN or infinite."""
    array = numeric_array(argument, values, kinds="fiu")
    vector = array.astype(np.float64, copy=False).ravel()
    if vector.size == 0:
        raise InvalidInput(argument, "is empty", "pass at least one number")
    # The sum is NaN or infinite whenever an element is: one pass, no temporary; only then is the element looked for.
    with np.errstate(over="ignore", invalid="ignore"):
        total = vector.sum()
    if not math.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            problem = f"has {bad.size:,} NaN or infinite values, the first at index {bad[0]:,}"
            raise InvalidInput(argument, problem, "check the training step for divergence")
    return vector


def numeric_array(argument: str, values: npt.ArrayLike, *, kinds: str) -> npt.NDArray[Any]:
    """`values` as an array of one of the kinds of numbers: f floating, i signed, u unsigned."""
    fix = "pass one array of real numbers" if "f" in kinds else "pass one array of whole numbers"
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(argument, "is a masked array", "fill or drop the masked elements first")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(argument, "is not an array of numbers", fix) from None
    if array.size and array.dtype.kind not in kinds:
        raise InvalidInput(argument, f"has elements of type {array.dtype}", fix)
    return array


def sensitivity_vector(argument: str, values: npt.ArrayLike) -> FloatVector:
    """A finite vector without negative numbers and with at least one positive one."""
    vector = finite_vector(argument, values)
    if vector.min() < 0:
        raise InvalidInput(argument, "has negative values", "pass absolute values, as sensitivity() returns them")
    if vector.max() == 0:
        raise InvalidInput(argument, "is zero everywhere", "compute gradients on at least one training sample first")
    return vector


def same_length(argument: str, vector: npt.NDArray[np.generic], expected: int, of: str) -> None:
    """Raise unless `vector` has one element for each of the `expected` elements of `of`."""
    if vector.size != expected:
        problem = f"has {vector.size:,} elements, {of} has {expected:,}"
        raise InvalidInput(argument, problem, "pass both from the same model")


def number(argument: str, value: float, *, low: float, high: float = math.inf, open_low: bool = False) -> float:
    """A finite number in [low, high], or in (low, high] with `open_low`."""
    bounds = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if math.isfinite(high) else ')'}"
    try:
        checked = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(argument, "is not a number of this range", f"pass one in {bounds}") from None
    if not math.isfinite(checked) or checked < low or checked > high or (open_low and checked == low):
        raise InvalidInput(argument, f"is {checked:g}", f"pass a number in {bounds}")
    return checked


def whole(argument: str, value: int, *, low: int, high: int | None = None) -> int:
    """A whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidInput(argument, f"is {value!r}", "pass a whole number")
    if value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high:,}"
        shown = f"{value:,}" if abs(value) < 2**64 else "out of range"  # Python refuses to print very long numbers
        raise InvalidInput(argument, f"is {shown}", f"pass at least {low:,}{upper}")
    return int(value)


def permutation(argument: str, values: npt.ArrayLike, size: int) -> IntVector:
    """`values` as int64, each of 0 … size − 1 exactly once."""
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
        raise InvalidInput(argument, "repeats an index, so it is no permutation", fix)
    return order.astype(np.int64, copy=False)


def choice(argument: str, value: str, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise InvalidInput(argument, f"is {value!r}", f"choose one of {', '.join(map(repr, allowed))}")
    return value
