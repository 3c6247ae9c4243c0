"""What a client knows when it decides, and what it decided."""

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
    """A client after training, before encrypting.

    Attributes:
        weights: its model, or in the prefix layout the cluster's, likewise.
        gradient: of the loss over its data, at `weights` or at the model that the round started from; None for a policy
            that does not ask for it.
        sensitivity: |w·g| of every parameter, w being where the gradient was computed; or in the prefix layout the
            cluster's mean of it, so that members with equal budgets choose alike; None like `gradient`.
        budget: α, the share of the model that its device may encrypt.
        ratio: the share of the model that a method without budgets encrypts.
        block: parameters a ciphertext.
        order: the cluster's order of the parameters in the prefix layout; None in the others.
        ranking: the parameters from most to least sensitive by what all clients summed before the first round; None
            where nothing was.
        exposed: what an adversary knows of the cluster's model; None where nobody asked.
        agreed: the blocks that the clients agreed on in this round; None where they did not.
        always: parameters to encrypt whatever their sensitivity; None: none.
        rng: for choices at random.
        B: of the security floor.
        C: of the security floor.
        max_mi: bound on the mutual information in bits, or None.
        objective: `balance` or `protect`.
        on_infeasible: what to do if the constraints contradict each other.
        bins: of the mutual information.
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
        """How many blocks `ratio` allows."""
        return blocks_of(self.ratio, self.blocks, self.block)

    def block_sums(self, scores: checks.FloatVector) -> checks.FloatVector:
        """The sum of the scores in each block, along the order if there is one."""
        in_slots = scores if self.order is None else scores[self.order]
        return np.add.reduceat(in_slots, np.arange(0, self.size, self.block), dtype=np.float64)

    def mask(self, flags: BoolVector) -> Mask:
        """The mask of these blocks."""
        return Mask(flags, self.size, self.block, self.order)

    def mask_of(self, blocks: checks.IntVector) -> Mask:
        """The mask of the blocks with these numbers."""
        flags = np.zeros(self.blocks, dtype=bool)
        flags[blocks] = True
        return self.mask(flags)


@dataclass(frozen=True)
class Choice:
    """What to encrypt, and what is to be said about it.

    Attributes:
        mask: in blocks of the situation's size, along its order.
        mi: mutual information in bits that is left; None where nobody asked.
        decided_by: which constraint decided.
        feasible: whether all constraints hold.
    """

    mask: Mask
    mi: float | None = None
    decided_by: str = "policy"
    feasible: bool = True


def asked_for(name: str, value: Part | None) -> Part:
    """A part of the situation that the policy's declaration asks for; without it the policy cannot choose."""
    if value is None:
        raise InvalidInput(name, "is missing from the situation", "pass what the policy's declaration asks for")
    return value


def spread_over(profile: checks.FloatVector, order: checks.IntVector, block: int) -> checks.FloatVector:
    """A sensitivity for every parameter whose sums over blocks along `order` are the profile."""
    starts = np.arange(0, order.size, block)
    lengths = np.diff(np.append(starts, order.size))
    values = np.empty(order.size)
    values[order] = np.repeat(profile / lengths, lengths)
    return values


def blocks_of(ratio: float, blocks: int, block: int) -> int:
    """⌊ratio · blocks⌋, refusing to round a wish for some encryption down to none."""
    count = math.floor(checks.number("ratio", ratio, low=0.0, high=1.0) * blocks + 1e-9)
    if count == 0 and ratio > 0:
        problem = f"is {ratio:g} of {blocks:,} ciphertexts of {block:,} values: none"
        enough = min(1.0, 1.05 / blocks)  # two digits of it never fall below 1 / blocks
        fix = f"choose at least {enough:.2g}, or a profile that packs fewer values into a ciphertext"
        raise InvalidInput("ratio", problem, fix)
    return count
