"""What comes out of a decrypted and verified sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from sensecrypt.crypto.scheme import Ints
from sensecrypt.protocol.costs import Cost


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
