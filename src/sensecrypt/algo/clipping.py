"""The bound on a client's update (trained minus start), and clipping to it.

Without a bound on updates, one client could replace the global model. Without a bound on values, a value may not fit
its slot; a client that then sends nothing reveals something about its data. So every client clips the L2 norm of its
update to a bound that is public before training, and every value to the range of a slot. Statistics at the end of an
update, such as the running variances of batch normalisation, change by other orders of magnitude than parameters: only
the range of a slot bounds them.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

Clip = float | Literal["auto"]
AUTO_SHARE = 0.125  # of the initial model's L2 norm: decision 17
_LEAST = 1.0  # the norm assumed for a model that starts near zero
_ROUNDING = 1e-5


def clip_bound(clip: Clip, initial: npt.ArrayLike) -> float:
    """Return the bound on the L2 norm of an update.

    Args:
        clip: the bound; or `auto`: an eighth of the L2 norm of the initial model, which all members know.
        initial: the model before the first round.
    """
    if clip != "auto":
        return checks.number("clip", clip, low=0.0, high=1e6, open_low=True)
    norm = max(float(np.linalg.norm(checks.finite_vector("initial", initial))), _LEAST)
    return float(f"{AUTO_SHARE * norm:.6g}")  # rounded, so that all machines get the same number


def clip_update(
    update: npt.ArrayLike, *, norm: float, largest: float, statistics: int = 0
) -> tuple[checks.FloatVector, bool]:
    """Return `update` scaled to an L2 norm of at most `norm` and clipped to ±`largest`, and whether it was scaled.

    Args:
        update: trained minus start.
        norm: the bound on the L2 norm of the parameters.
        largest: the bound on each absolute value.
        statistics: the number of values at the end that are statistics, not parameters.
    """
    vector = checks.finite_vector("update", update).astype(np.float64)
    parameters = vector[: vector.size - statistics]
    length = math.sqrt(float(np.dot(parameters, parameters)))
    clipped = length > norm
    if clipped:
        parameters *= norm / length
    return np.clip(vector, -largest, largest), bool(clipped)


def check_start(start: npt.ArrayLike, before: npt.ArrayLike, *, norm: float, rounds: int, statistics: int = 0) -> None:
    """Raise `InvalidInput` if clipped updates cannot lead from the model `before` to the model `start`.

    Args:
        start: the model to train next.
        before: the model that was trained last, or the initial model.
        norm: the bound on the L2 norm of every update, and so of their mean.
        rounds: the number of rounds between the two.
        statistics: the number of values at the end that are statistics; the bound does not apply to them.
    """
    vector = np.asarray(start, dtype=np.float64)
    reference = np.asarray(before, dtype=np.float64)
    fix = "do not train it; ask the operator of the key server"
    if vector.shape != reference.shape:
        problem = f"has shape {vector.shape}, the previous model {reference.shape}"
        raise InvalidInput("start model", problem, fix)
    if not np.isfinite(vector).all():
        raise InvalidInput("start model", "has values that are not finite", fix)
    moved = (vector - reference)[: vector.size - statistics]
    far, most = float(np.linalg.norm(moved)), norm * rounds
    if far > most * (1 + _ROUNDING) + _ROUNDING:
        problem = f"differs by {far:.4g} from the model {rounds} round(s) ago; clipped updates allow {most:.4g}"
        raise InvalidInput("start model", problem, fix)
