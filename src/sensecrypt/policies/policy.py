"""The type of a policy: a method of choosing what to encrypt."""

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
    """A method of choosing what to encrypt, and what it needs.

    Attributes:
        choose: returns what one client encrypts.
        encrypts: whether the method encrypts at all.
        needs_gradient: whether each client must compute its gradient, which takes time.
        uses_ratio: whether it encrypts a given share of the model.
        uses_budget: whether it encrypts what the device's budget allows.
        heeds_always: whether it always encrypts the parameters of `Situation.always`.
        ranks_by: what clients sum under encryption to rank the parameters: their `sensitivity`, which gives the order
            of the prefix layout and is refreshed; the `jacobian` of FedML-HE, once; None: nothing.
        clusters: whether it clusters clients; the other methods train one model for all, as published.
        propose: for a method with an exchange before the upload: returns a client's proposed blocks, best first.
        agree: returns one flag per block for all clients, from their proposals, the number of blocks and the largest
            number of blocks of a proposal.
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
