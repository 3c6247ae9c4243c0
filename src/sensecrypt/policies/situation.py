"""The input and the output of a policy: a client's situation and its choice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.leakage import DEFAULT_BINS
from sensecrypt.algo.selection import Normalise, Objective, OnInfeasible
from sensecrypt.errors import InvalidInput
from sensecrypt.types import BoolVector, Mask

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a client knows after training, when it decides what to encrypt.

    Attributes:
        weights: the client's model; in the prefix layout, the cluster's.
        gradient: the gradient of the loss over the client's data, at `weights` or at the round's start model; None if
            the policy does not need it.
        sensitivity: |w·g| of every parameter, with w where the gradient was computed; in the prefix layout the
            cluster's mean, so that members with equal budgets choose the same; None if the policy does not need it.
        budget: α, the share of the model that the device may encrypt.
        ratio: the share of the model that a method without budgets encrypts.
        block: parameters per ciphertext.
        order: the cluster's order of the parameters in the prefix layout; None in the others.
        ranking: the parameters from most to least sensitive, by the sum over all clients before the first round; None
            if there was none.
        exposed: the adversary's estimate of the cluster's model; None if the policy does not need it.
        agreed: the blocks that the clients agreed on in this round; None if the policy has no agreement.
        always: the parameters to encrypt regardless of sensitivity; None: none.
        rng: the generator for random choices.
        B: parameter of the security floor.
        C: parameter of the security floor.
        max_mi: bound on the mutual information in bits; None: no bound.
        objective: `balance` or `protect`.
        on_infeasible: what to do if no mask meets all constraints.
        bins: number of bins of the mutual information.
        beta: weights of cost and protection in the objective `balance`.
        normalise: over which masks the two objectives of `balance` are scaled.
    """

    weights: npt.NDArray[np.float32]
    gradient: npt.NDArray[np.float32] | None
    sensitivity: checks.FloatVector | None
    budget: float
    ratio: float
    block: int
    order: checks.IntVector | None = None
    ranking: checks.IntVector | None = None
    exposed: npt.NDArray[np.float32] | None = None
    agreed: BoolVector | None = None
    always: BoolVector | None = None
    rng: np.random.Generator
    B: float
    C: float
    max_mi: float | None
    objective: Objective
    on_infeasible: OnInfeasible
    bins: int = DEFAULT_BINS
    beta: tuple[float, float] = (1.0, 1.0)
    normalise: Normalise = "all"

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.weights.size

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.size // self.block)

    @property
    def ratio_blocks(self) -> int:
        """Number of blocks that `ratio` allows."""
        return blocks_of(self.ratio, self.blocks, self.block)

    def block_sums(self, scores: checks.FloatVector) -> checks.FloatVector:
        """Return the sum of the scores in each block, along the order if there is one."""
        in_slots = scores if self.order is None else scores[self.order]
        return np.add.reduceat(in_slots, np.arange(0, self.size, self.block), dtype=np.float64)

    def mask(self, flags: BoolVector) -> Mask:
        """Return the mask of the flagged blocks."""
        return Mask(flags, self.size, self.block, self.order)

    def mask_of(self, blocks: checks.IntVector) -> Mask:
        """Return the mask of the blocks with these numbers."""
        flags = np.zeros(self.blocks, dtype=bool)
        flags[blocks] = True
        return self.mask(flags)


@dataclass(frozen=True)
class Choice:
    """What a client encrypts, and why.

    Attributes:
        mask: the mask, in blocks of the situation's size, along its order.
        mi: the remaining mutual information in bits; None if not computed.
        decided_by: the constraint that decided.
        feasible: whether all constraints hold.
    """

    mask: Mask
    mi: float | None = None
    decided_by: str = "policy"
    feasible: bool = True


def asked_for(name: str, value: Part | None) -> Part:
    """Return `value`, a part of the situation that the policy needs; raise if it is missing."""
    if value is None:
        raise InvalidInput(name, "is missing from the situation", "pass every part that the policy declares it needs")
    return value


def spread_over(sums: checks.FloatVector, order: checks.IntVector, block: int) -> checks.FloatVector:
    """Return one sensitivity per parameter, equal within blocks along `order`, whose sums per block are `sums`."""
    starts = np.arange(0, order.size, block)
    lengths = np.diff(np.append(starts, order.size))
    values = np.empty(order.size)
    values[order] = np.repeat(sums / lengths, lengths)
    return values


def blocks_of(ratio: float, blocks: int, block: int) -> int:
    """Return ⌊ratio · blocks⌋; raise if a positive ratio gives no block."""
    count = math.floor(checks.number("ratio", ratio, low=0.0, high=1.0) * blocks + 1e-9)
    if count == 0 and ratio > 0:
        problem = f"is {ratio:g}, less than one of the {blocks:,} ciphertexts of {block:,} values"
        enough = min(1.0, 1.05 / blocks)  # not below 1 / blocks when shown with two digits
        fix = f"choose at least {enough:.2g}, or a profile that packs fewer values into a ciphertext"
        raise InvalidInput("ratio", problem, fix)
    return count
