"""Computes the cluster's next model from a decrypted sum of updates.

Members send updates, and the key server never has a model. So it returns how far the cluster has moved from the initial
model, which every member builds itself. A client that missed rounds needs one message, not one per round. If members
send whole models, the key server returns their mean instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.serverupdates import ServerRule, State
from sensecrypt.crypto.scheme import Ints
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.round import Round
from sensecrypt.worktime import Cost


@dataclass(frozen=True)
class ReleasedSum:
    """A decrypted and verified sum.

    Attributes:
        values: Σ p_i·w_i in fixed point, in the parameters' natural order; Σ n_i·w_i if the aggregator multiplies.
        weight: Σ p_i over the contributors, or Σ n_i.
        contributors: the clients in the sum.
        cost: the cost of decrypting it.
    """

    values: Ints
    weight: float
    contributors: tuple[int, ...]
    cost: Cost = field(default_factory=Cost, compare=False, repr=False)


Vector = npt.NDArray[np.float32]
FEDAVG = ServerRule()
_NOTHING: State = MappingProxyType({})
_ROUNDING = 1e-6


def moved_after(
    before: Vector | None,
    released: ReleasedSum,
    round_: Round,
    *,
    rule: ServerRule = FEDAVG,
    state: State = _NOTHING,
) -> tuple[Vector, dict[str, checks.FloatVector]]:
    """Return how far the cluster has moved after this round (if members send models: the mean), and the rule's state.

    Args:
        before: how far it had moved before; None: no round was completed.
        released: the round's sum.
        round_: the round.
        rule: the server update.
        state: the rule's state after the previous round.
    """
    mean = model_format(round_).decode(released.values, released.weight)
    after: dict[str, checks.FloatVector] = {}
    if round_.clip is not None:
        mean, after = rule.step(mean, state)
        if before is not None:
            mean = mean + before
    return mean.astype(np.float32), after


def model_of(initial: Vector, moved: Vector, round_: Round) -> Vector:
    """Return the cluster's model from the result of `moved_after`."""
    return model_from(initial, moved, round_.clip)


def model_from(initial: Vector, moved: Vector | None, clip: float | None) -> Vector:
    """Return the model of a cluster that has moved by `moved` (None: not at all); without `clip`, `moved` itself."""
    if moved is None:
        return initial
    return moved if clip is None else (initial.astype(np.float64) + moved).astype(np.float32)


def within_clip(released: ReleasedSum, round_: Round, *, statistics: int = 0) -> bool:
    """Return whether clipped updates of these contributors can have this mean; always true if members send models.

    Args:
        released: the round's sum.
        round_: the round.
        statistics: number of values at the end that are statistics; the bound does not apply to them.
    """
    if round_.clip is None or round_.purpose != "model":
        return True
    form = model_format(round_)
    mean: checks.FloatVector = form.decode(released.values, released.weight)[: round_.size - statistics]
    steps = len(released.contributors) * math.sqrt(round_.size) / 2  # each client rounds each value by half a step
    rounding = math.ldexp(steps, -form.frac_bits) / min(1.0, released.weight)
    return float(np.linalg.norm(mean)) <= round_.clip * (1 + _ROUNDING) + rounding
