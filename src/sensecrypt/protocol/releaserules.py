"""Release rules: a sum is released if enough clients with enough of the weight are in it and none dominates it.

A sum of one client and next to nothing is that client's model. Clients that collude with the aggregator subtract their
own parts, so dominance is measured without them, in weights and, because many small independent updates average out, in
squares of weights. The rules are about the clients in the sum, not the invited ones: an aggregator chooses what it
adds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, Rejected

LARGEST_SQUARE = 0.9  # where clients may collude: √(1 − 0.9) is the least relative error of reading one from the sum


def honest_share(weights: Mapping[int, float], client: int, colluders: int) -> float:
    """The client's weight over what is left of the total without the `colluders` largest others; 1: no other hides it.

    Args:
        weights: of all clients in the sum, positive.
        client: one of them.
        colluders: how many of the others may give their values away.
    """
    others = sorted(weight for other, weight in weights.items() if other != client)
    left = others[: max(0, len(others) - colluders)]
    return weights[client] / (weights[client] + sum(left))


def honest_square(weights: Mapping[int, float], client: int, colluders: int) -> float:
    """The same for squares of weights: many small independent updates average out, and do not hide a large one.

    √(1 − it) is the relative error of reading the client's update from the sum, if updates are equally long.
    """
    return honest_share({each: weight**2 for each, weight in weights.items()}, client, colluders)


CODE = "groups"
_RATIO_ROUNDING = 1e-6

Weights = Mapping[int, float]  # of all clients in a sum


def check_groups(now: Weights, earlier: Sequence[Weights], least: int) -> None:
    """Raise `Rejected` unless a sum may be released after the earlier ones.

    Args:
        now: the weights of the clients in the sum.
        earlier: the same of every sum that was released before.
        least: the fewest clients of a group.
    """
    released = [now, *earlier]
    groups: dict[tuple[bool, ...], list[int]] = defaultdict(list)
    for client in set().union(*released):
        groups[tuple(client in each for each in released)].append(client)
    smallest = min(map(len, groups.values()))
    if smallest < least:
        reason = f"with the sums released before, it would single out {smallest} client(s), at least {least} are needed"
        raise Rejected(reason, code=CODE)
    for (here, *there), clients in groups.items():
        for before in (each for each, present in zip(earlier, there, strict=True) if here and present):
            ratios = [now[client] / before[client] for client in clients]
            if max(ratios) > min(ratios) * (1 + _RATIO_ROUNDING):
                raise Rejected("the weights within a group have changed since an earlier sum", code=CODE)


def make_groups(members: Collection[int], least: int) -> list[set[int]]:
    """Members in groups of `least`, in order; the last ones have the remainder. Fewer members are one group."""
    clients, many = sorted(members), max(1, len(members) // least)
    return [set(clients[len(clients) * part // many : len(clients) * (part + 1) // many]) for part in range(many)]


LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS = 0.7, 20.0, 1  # where clients must not see each other's models
_LEAST_LARGEST = 0.5
_ROUNDING = 1e-9  # shares are quotients of whole numbers


@dataclass(frozen=True)
class ReleaseRules:
    """What must hold of a sum before it is decrypted.

    Attributes:
        min_contributors: the fewest clients in it.
        quorum: the least share of the members' weight, and of their number, in it: clients report weights themselves.
        largest_weight: the largest share of it that one client may have without the `colluders` largest others.
        largest_ratio: the largest weight in it over the smallest.
        colluders: how many of its clients may give their values to the aggregator.
        fixed_groups: whether the sums of a run must be of fixed groups; see `check_groups`.
    """

    min_contributors: int = 3
    quorum: float = 0.0
    largest_weight: float = 1.0
    largest_ratio: float = math.inf
    colluders: int = 0
    fixed_groups: bool = False

    def __post_init__(self) -> None:
        """Refuse rules that no sum could meet."""
        checks.whole("min_contributors", self.min_contributors, low=1)
        checks.whole("colluders", self.colluders, low=0)
        for name in ("quorum", "largest_weight"):
            checks.number(name, getattr(self, name), low=0.0, high=1.0)
        if not self.largest_ratio >= 1:
            raise InvalidInput("largest_ratio", f"is {self.largest_ratio}", "pass at least 1")
        if self.colluders and self.largest_weight < _LEAST_LARGEST:
            fix = f"pass at least {_LEAST_LARGEST}: two clients are what is left of three without one"
            raise InvalidInput("largest_weight", f"is {self.largest_weight}", fix)

    def check(self, weights: Mapping[int, float], contributors: Collection[int]) -> None:
        """Raise `Rejected` unless a sum of these members may be released.

        Args:
            weights: p of every member; they sum to 1.
            contributors: members whose values are in the sum, each once.
        """
        own = {client: weights[client] for client in contributors}
        there, many = sum(own.values()), len(own)
        if many < self.min_contributors:
            _refuse(f"{many} contributor(s), at least {self.min_contributors} are needed")
        if there < self.quorum - _ROUNDING:
            _refuse(f"{there:.0%} of the cluster's weight is in the sum, the quorum is {self.quorum:.0%}")
        if many < self.quorum * len(weights) - _ROUNDING:
            _refuse(f"{many} of the cluster's {len(weights)} clients are in the sum, the quorum is {self.quorum:.0%}")
        largest = max(own, key=lambda client: own[client])
        share = honest_share(own, largest, self.colluders)
        if share > self.largest_weight + _ROUNDING:
            without = f" without the {self.colluders} largest other(s)" if self.colluders else ""
            _refuse(f"one client is {share:.1%} of the sum{without}, at most {self.largest_weight:.0%} may be one's")
        drowned = honest_square(own, largest, self.colluders)
        if self.colluders and self.largest_weight < 1 and drowned > LARGEST_SQUARE + _ROUNDING:
            _refuse(f"one client outweighs the others of the sum, who are small: {(1 - drowned) ** 0.5:.0%} hide it")
        if max(own.values()) > self.largest_ratio * min(own.values()) * (1 + _ROUNDING):
            times = f"{max(own.values()) / min(own.values()):.0f} times the weight of another"
            _refuse(f"one client has {times} in the sum, at most {self.largest_ratio:g} times is allowed")

    def allow(self, weights: Mapping[int, float], contributors: Collection[int]) -> bool:
        """Whether `check` would pass."""
        try:
            self.check(weights, contributors)
        except Rejected:
            return False
        return True

    def weights(self, samples: Mapping[int, int]) -> dict[int, float]:
        """n_i / Σ n_j of all members, changed as far as needed for a sum of all of them to meet the rules.

        A client with next to nothing counts more. One with nearly everything counts less, so that the others are a
        quorum without it, and that any one may be absent where the rest are enough. Clients report their numbers of
        samples themselves, and a run must not depend on one that lies.
        """
        least = max(samples.values()) / self.largest_ratio
        masses: dict[int, float] = {client: max(own, least) for client, own in samples.items()}
        most = self._bound(sorted(masses.values(), reverse=True))
        masses = {client: min(own, most) for client, own in masses.items()}
        total, even = sum(masses.values()), 1 / len(masses)
        shares = {client: own / total for client, own in masses.items()}
        return _capped(shares, max(min(self.largest_weight, 1 - self.quorum), even))

    def shares(self, samples: Mapping[int, int], *, whole: bool) -> tuple[dict[int, float], dict[int, int] | None]:
        """The weights; and with `whole`, the factors that an aggregator multiplies by, in the same proportion.

        Factors are the samples, unless the rules move weights. Then they are rounded so that the rules still hold.
        """
        weights = self.weights(samples)
        if not whole:
            return weights, None
        factors, total = dict(samples), sum(samples.values())
        if any(abs(own - factors[client] / total) > _ROUNDING for client, own in weights.items()):
            even = 1 / len(weights)
            exact = {client: own * total for client, own in weights.items()}
            factors = {
                client: max(1, math.floor(own) if weights[client] > even else math.ceil(own))
                for client, own in exact.items()
            }
        return {client: own / sum(factors.values()) for client, own in factors.items()}, factors

    def _bound(self, ranked: list[float]) -> float:
        """The largest mass with which a client does not dominate, whichever others collude and, if one may, are absent.

        For each of the first t + 1 clients, the same others are left without the t largest others.
        """
        spare = len(ranked) > max(self.min_contributors, self.colluders + 2)
        others = ranked[self.colluders + 1 + spare :]
        if not self.colluders or self.largest_weight >= 1 or not others:
            return math.inf
        share = self.largest_weight / (1 - self.largest_weight) * sum(others)
        return min(share, math.sqrt(LARGEST_SQUARE / (1 - LARGEST_SQUARE)) * math.hypot(*others))


def _capped(shares: dict[int, float], most: float) -> dict[int, float]:
    """Shares of at most `most`; the excess goes to the others, in proportion."""
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
