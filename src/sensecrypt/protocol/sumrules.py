"""Whose sums may be opened: those of enough clients, with enough of the weight, none of whom is nearly all of it.

A sum of one and of next to nothing is that one, and whoever knows the others' values subtracts them. What counts is
what is in the sum, not what was planned: an aggregator chooses whose uploads it adds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sensecrypt import checks
from sensecrypt.errors import Rejected

LARGEST_WEIGHT, LEAST_OF_EVEN = 0.8, 0.01  # where clients are not to see each other's models
_ROUNDING = 1e-9  # shares are quotients of whole numbers


@dataclass(frozen=True)
class SumRules:
    """What must hold of a sum before it is decrypted.

    Attributes:
        min_contributors: the fewest clients in it.
        quorum: the least part in it of the members' weight, and of their number: weights are what clients say.
        largest_weight: the largest part of it that is one client's.
        least_of_even: how much of an even part each client has at least.
        fixed_groups: whether the sums of a run must be of fixed groups; see `groups`, which checks it.
    """

    min_contributors: int = 2
    quorum: float = 0.0
    largest_weight: float = 1.0
    least_of_even: float = 0.0
    fixed_groups: bool = False

    def __post_init__(self) -> None:
        """Refuse rules that no sum could keep."""
        checks.whole("min_contributors", self.min_contributors, low=1)
        for name in ("quorum", "largest_weight", "least_of_even"):
            checks.number(name, getattr(self, name), low=0.0, high=1.0)

    def check(self, weights: Mapping[int, float], contributors: Collection[int]) -> None:
        """Raise `Rejected` unless a sum of these members may be opened.

        Args:
            weights: p of every member; they sum to 1.
            contributors: members whose values are in the sum, each once.
        """
        own = [weights[client] for client in contributors]
        there, many = sum(own), len(own)
        if many < self.min_contributors:
            _refuse(f"{many} contributor(s), at least {self.min_contributors} are needed")
        if there < self.quorum - _ROUNDING:
            _refuse(f"{there:.0%} of the cluster's weight is in the sum, the quorum is {self.quorum:.0%}")
        if many < self.quorum * len(weights) - _ROUNDING:
            _refuse(f"{many} of the cluster's {len(weights)} clients are in the sum, the quorum is {self.quorum:.0%}")
        if max(own) > self.largest_weight * there + _ROUNDING:
            _refuse(f"one client is {max(own) / there:.1%} of the sum, at most {self.largest_weight:.0%} may be one's")
        if min(own) * many < self.least_of_even * there - _ROUNDING:
            _refuse(f"one client has less than {self.least_of_even:.0%} of an even part of the sum")

    def allow(self, weights: Mapping[int, float], contributors: Collection[int]) -> bool:
        """Whether `check` would pass."""
        try:
            self.check(weights, contributors)
        except Rejected:
            return False
        return True

    def weights(self, samples: Mapping[int, int]) -> dict[int, float]:
        """n_i / Σ n_j of all members, moved as far as needed for a sum of all of them to keep the rules.

        Whoever has next to nothing counts a little more. Whoever has nearly all counts less, so much so that the others
        are a quorum without it: samples are what clients say that they have, and one that lies must not be missed.
        """
        total, even = sum(samples.values()), 1 / len(samples)
        shares = {client: own / total for client, own in samples.items()}
        least = self.least_of_even * even
        if min(shares.values()) < least:
            raised = {client: max(own, 2 * least) for client, own in shares.items()}  # twice: scaling takes some away
            scale = sum(raised.values())
            shares = {client: own / scale for client, own in raised.items()}
        return _capped(shares, max(min(self.largest_weight, 1 - self.quorum), even))


def _capped(shares: dict[int, float], most: float) -> dict[int, float]:
    """Nobody has more than `most`; what that takes away goes to the others, each in proportion."""
    at_most: set[int] = set()
    while True:
        free = sum(own for client, own in shares.items() if client not in at_most)
        scale = (1 - most * len(at_most)) / free if at_most and free else 1.0
        above = {client for client, own in shares.items() if client not in at_most and own * scale > most + _ROUNDING}
        if not above:
            return {client: most if client in at_most else own * scale for client, own in shares.items()}
        at_most |= above


def _refuse(reason: str) -> None:
    raise Rejected(reason, code="too-few-contributors")
