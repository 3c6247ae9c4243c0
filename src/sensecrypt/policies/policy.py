"""What a method is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sensecrypt import checks
from sensecrypt.policies.situation import Choice, Situation
from sensecrypt.types import BoolVector

RankedBlocks = checks.IntVector


@dataclass(frozen=True)
class Policy:
    """A method of choosing what to encrypt, as the engines need it.

    Attributes:
        choose: what one client encrypts.
        encrypts: whether anybody encrypts anything.
        needs_gradient: whether a client computes its gradient for it, which takes time.
        uses_ratio: whether it encrypts a given share of the model, and not what a budget allows.
        uses_budget: whether it encrypts what the device's budget allows.
        heeds_always: whether it encrypts what is to be encrypted whatever its sensitivity.
        ranks_by: what clients sum under encryption so that parameters can be ranked: their `sensitivity`, which gives
            the order of the prefix layout and is refreshed; the `jacobian` of FedML-HE, once; or nothing.
        clusters: whether it clusters clients; the others train one model for all, as they were published.
        propose: for a method with an exchange before the upload: the blocks that a client wants encrypted, best first.
        agree: what the aggregator makes of the proposals: from them, the number of blocks and the ratio, one flag a
            block for all clients.
    """

    choose: Callable[[Situation], Choice]
    encrypts: bool = True
    needs_gradient: bool = False
    uses_ratio: bool = False
    uses_budget: bool = False
    heeds_always: bool = False
    ranks_by: Literal["sensitivity", "jacobian"] | None = None
    clusters: bool = False
    propose: Callable[[Situation], RankedBlocks] | None = None
    agree: Callable[[Sequence[RankedBlocks], int, int], BoolVector] | None = None
