"""The bound on a client's update (trained minus start), and clipping to it.

An update without a bound lets one client replace the model of all. A value without a bound may not fit its slot, and a
client that then sends nothing shows something of its data. So every client clips: the whole update to a length that all
members know before training, and every value to what a slot holds. Statistics at the end of an update, such as the
running variances of batch normalisation, move by other orders of magnitude than parameters: they are bound by what a
slot holds alone.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

Clip = float | Literal["auto"]
AUTO_SHARE = 0.125  # of the initial model's length: decision 17
_LEAST = 1.0  # length of a model that starts near zero
_ROUNDING = 1e-5


def clip_bound(clip: Clip, initial: npt.ArrayLike) -> float:
    """The largest L2 norm of an update.

    Args:
        clip: the bound; or `auto`: an eighth of the norm of the initial model, which all members know.
        initial: the model before the first round.
    """
    if clip != "auto":
        return checks.number("clip", clip, low=0.0, high=1e6, open_low=True)
    norm = max(float(np.linalg.norm(checks.finite_vector("initial", initial))), _LEAST)
    return float(f"{AUTO_SHARE * norm:.6g}")  # the same number on machines whose last bits differ


def clip_update(
    update: npt.ArrayLike, *, norm: float, largest: float, statistics: int = 0
) -> tuple[checks.FloatVector, bool]:
    """`update`, scaled down to an L2 norm of at most `norm` with no absolute value above `largest`; was it longer?

    Args:
        update: trained minus start.
        norm: the bound on its parameters.
        largest: the bound on each of its values.
        statistics: how many values at its end are no parameters.
    """
    vector = checks.finite_vector("update", update).astype(np.float64)
    parameters = vector[: vector.size - statistics]
    length = math.sqrt(float(np.dot(parameters, parameters)))
    clipped = length > norm
    if clipped:
        parameters *= norm / length
    return np.clip(vector, -largest, largest), bool(clipped)


def check_start(start: npt.ArrayLike, before: npt.ArrayLike, *, norm: float, rounds: int, statistics: int = 0) -> None:
    """Raise `InvalidInput` unless a model can have come from the one before by clipped updates.

    Args:
        start: the model to train next.
        before: the one that was trained last, or the initial model.
        norm: the bound on every update, and so on their mean.
        rounds: how many rounds lie between the two.
        statistics: how many values at the end are no parameters, and have no such bound.
    """
    vector = np.asarray(start, dtype=np.float64)
    reference = np.asarray(before, dtype=np.float64)
    fix = "do not train it; ask who runs the key server"
    if vector.shape != reference.shape:
        raise InvalidInput("start model", f"has shape {vector.shape}, the one before {reference.shape}", fix)
    if not np.isfinite(vector).all():
        raise InvalidInput("start model", "has values that are not finite", fix)
    moved = (vector - reference)[: vector.size - statistics]
    far, most = float(np.linalg.norm(moved)), norm * rounds
    if far > most * (1 + _ROUNDING) + _ROUNDING:
        problem = f"is {far:.4g} away from the one of {rounds} round(s) before; clipped updates reach {most:.4g}"
        raise InvalidInput("start model", problem, fix)
