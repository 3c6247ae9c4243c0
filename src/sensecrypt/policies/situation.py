"""What a client knows when it decides, and what it decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.selection import Objective, OnInfeasible
from sensecrypt.types import Mask


@dataclass(frozen=True)
class Situation:
    """A client after training, before encrypting.

    Attributes:
        weights: its model.
        sensitivity: |w·g| of every parameter.
        budget: α, the share of the model that it may encrypt.
        block: parameters a ciphertext.
        order: the cluster's order of the parameters in the prefix layout; None in the others.
        B: of the security floor.
        C: of the security floor.
        max_mi: bound on the mutual information in bits, or None.
        objective: `balance` or `protect`.
        on_infeasible: what to do if the constraints contradict each other.
    """

    weights: npt.NDArray[np.float32]
    sensitivity: checks.FloatVector
    budget: float
    block: int
    order: checks.IntVector | None
    B: float
    C: float
    max_mi: float | None
    objective: Objective
    on_infeasible: OnInfeasible


@dataclass(frozen=True)
class Choice:
    """What to encrypt, and what is to be said about it.

    Attributes:
        mask: in blocks of the situation's size, along its order.
        coverage: share of the sensitivity that it hides.
        mi: mutual information in bits that is left; None where nobody asked.
        decided_by: which constraint decided.
        feasible: whether all constraints hold.
    """

    mask: Mask
    coverage: float
    mi: float | None = None
    decided_by: str = "policy"
    feasible: bool = True
