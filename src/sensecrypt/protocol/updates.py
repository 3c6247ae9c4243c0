"""From a decrypted sum of updates to the cluster's next model.

Members send updates, and the key server never has a model. So it hands out how far the cluster has moved from the
initial model, which every member makes itself: a client that missed rounds needs one message, not one per round. Where
members send whole models, the mean of these is handed out in its place.
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
        values: Σ p_i·w_i in fixed point, in the parameters' natural order; Σ n_i·w_i where the aggregator multiplies.
        weight: Σ p_i over the contributors, or Σ n_i.
        contributors: who they are.
        cost: of decrypting it.
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
    """How far the cluster has moved after this round, and the rule's state; where members send models, their mean.

    Args:
        before: how far it had moved before; None: not at all.
        released: the round's sum.
        round_: the round.
        rule: how the mean update moves the model.
        state: of the rule, after the round before.
    """
    mean = model_format(round_).decode(released.values, released.weight)
    after: dict[str, checks.FloatVector] = {}
    if round_.clip is not None:
        mean, after = rule.step(mean, state)
        if before is not None:
            mean = mean + before
    return mean.astype(np.float32), after


def model_of(initial: Vector, moved: Vector, round_: Round) -> Vector:
    """The cluster's model from what `moved_after` returned."""
    return model_from(initial, moved, round_.clip)


def model_from(initial: Vector, moved: Vector | None, clip: float | None) -> Vector:
    """The model of a cluster that has moved so far; None: not at all. Without a bound, `moved` is the model."""
    if moved is None:
        return initial
    return moved if clip is None else (initial.astype(np.float64) + moved).astype(np.float32)


def within_clip(released: ReleasedSum, round_: Round, *, statistics: int = 0) -> bool:
    """Whether clipped updates of these contributors can have this mean; always, where members send models.

    Args:
        released: the round's sum.
        round_: the round.
        statistics: how many values at the end are no parameters, and have no bound but their slots.
    """
    if round_.clip is None or round_.purpose != "model":
        return True
    form = model_format(round_)
    mean: checks.FloatVector = form.decode(released.values, released.weight)[: round_.size - statistics]
    steps = len(released.contributors) * math.sqrt(round_.size) / 2  # each client rounds each value by half a step
    rounding = math.ldexp(steps, -form.frac_bits) / min(1.0, released.weight)
    return float(np.linalg.norm(mean)) <= round_.clip * (1 + _ROUNDING) + rounding
