"""Release rules: a sum is released if it has enough clients and enough weight, and no client dominates it.

A sum of one client and others of negligible weight is practically that client's model. Clients that collude with the
aggregator subtract their own parts, so dominance is measured without them: in weights, and in squares of weights,
because many small independent updates average out. The rules apply to the clients in the sum, not to the invited
clients, because the aggregator chooses what it adds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, Rejected

LARGEST_SQUARE = 0.9  # if clients may collude; √(1 − 0.9) is the smallest relative error of reading an update


def honest_share(weights: Mapping[int, float], client: int, colluders: int) -> float:
    """Return the client's share of the total weight without the `colluders` largest others; 1: no other hides it.

    Args:
        weights: the positive weights of all clients in the sum.
        client: one of them.
        colluders: how many of the others may disclose their values to the aggregator.
    """
    others = sorted(weight for other, weight in weights.items() if other != client)
    left = others[: max(0, len(others) - colluders)]
    return weights[client] / (weights[client] + sum(left))


def honest_square(weights: Mapping[int, float], client: int, colluders: int) -> float:
    """Return the same share s of squared weights: many small independent updates average out and hide little.

    If updates have equal norms, √(1 − s) is the relative error of reading the client's update from the sum.
    """
    return honest_share({each: weight**2 for each, weight in weights.items()}, client, colluders)


CODE = "groups"
_RATIO_ROUNDING = 1e-6

Weights = Mapping[int, float]  # of all clients in a sum


def check_groups(now: Weights, earlier: Sequence[Weights], least: int) -> None:
    """Raise `Rejected` unless a sum may be released after the earlier ones.

    Args:
        now: the weights of the clients in the sum.
        earlier: the weights of the clients in every earlier released sum.
        least: the smallest number of clients in a group.
    """
    released = [now, *earlier]
    groups: dict[tuple[bool, ...], list[int]] = defaultdict(list)
    for client in set().union(*released):
        groups[tuple(client in each for each in released)].append(client)
    smallest = min(map(len, groups.values()))
    if smallest < least:
        reason = f"with earlier sums, it would isolate {smallest} client(s), but at least {least} are needed"
        raise Rejected(reason, code=CODE)
    for (here, *there), clients in groups.items():
        for before in (each for each, present in zip(earlier, there, strict=True) if here and present):
            ratios = [now[client] / before[client] for client in clients]
            if max(ratios) > min(ratios) * (1 + _RATIO_ROUNDING):
                raise Rejected("the weights within a group have changed since an earlier sum", code=CODE)


def make_groups(members: Collection[int], least: int) -> list[set[int]]:
    """Return members in ascending groups of at least `least`; fewer members form one group."""
    clients, many = sorted(members), max(1, len(members) // least)
    return [set(clients[len(clients) * part // many : len(clients) * (part + 1) // many]) for part in range(many)]


LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS = 0.7, 20.0, 1  # if clients must not see each other's models
_LEAST_LARGEST = 0.5
_ROUNDING = 1e-9  # shares are quotients of integers


@dataclass(frozen=True)
class ReleaseRules:
    """The conditions for decrypting a sum.

    Attributes:
        min_contributors: the smallest number of clients in it.
        quorum: the smallest share of the members' weight, and of their number, in it. The number counts as well,
            because clients report their weights themselves.
        largest_weight: the largest share of one client, without the `colluders` largest others.
        largest_ratio: the largest ratio of two weights in it.
        colluders: how many of its clients may disclose their values to the aggregator.
        fixed_groups: whether the sums of a run must be of fixed groups; see `check_groups`.
    """

    min_contributors: int = 3
    quorum: float = 0.0
    largest_weight: float = 1.0
    largest_ratio: float = math.inf
    colluders: int = 0
    fixed_groups: bool = False

    def __post_init__(self) -> None:
        """Refuse rules that no sum can meet."""
        checks.whole("min_contributors", self.min_contributors, low=1)
        checks.whole("colluders", self.colluders, low=0)
        for name in ("quorum", "largest_weight"):
            checks.number(name, getattr(self, name), low=0.0, high=1.0)
        if not self.largest_ratio >= 1:
            raise InvalidInput("largest_ratio", f"is {self.largest_ratio}", "pass at least 1")
        if self.colluders and self.largest_weight < _LEAST_LARGEST:
            fix = f"pass at least {_LEAST_LARGEST}: three clients without a colluder are two"
            raise InvalidInput("largest_weight", f"is {self.largest_weight}", fix)

    def check(self, weights: Mapping[int, float], contributors: Collection[int]) -> None:
        """Raise `Rejected` unless a sum of these members may be released.

        Args:
            weights: p of every member; they sum to 1.
            contributors: members whose values are in the sum, without repetition.
        """
        own = {client: weights[client] for client in contributors}
        present, many = sum(own.values()), len(own)
        if many < self.min_contributors:
            _refuse(f"{many} contributor(s), but at least {self.min_contributors} are needed")
        if present < self.quorum - _ROUNDING:
            _refuse(f"{present:.0%} of the cluster's weight is in the sum, but the quorum is {self.quorum:.0%}")
        if many < self.quorum * len(weights) - _ROUNDING:
            counted = f"{many} of the cluster's {len(weights)} clients are in the sum"
            _refuse(f"{counted}, but the quorum is {self.quorum:.0%}")
        largest = max(own, key=lambda client: own[client])
        share = honest_share(own, largest, self.colluders)
        if share > self.largest_weight + _ROUNDING:
            without = f" without the {self.colluders} largest other(s)" if self.colluders else ""
            _refuse(f"one client is {share:.1%} of the sum{without}, but at most {self.largest_weight:.0%} is allowed")
        square = honest_square(own, largest, self.colluders)
        if self.colluders and self.largest_weight < 1 and square > LARGEST_SQUARE + _ROUNDING:
            hidden = f"they hide it by only {(1 - square) ** 0.5:.0%}"
            _refuse(f"one client outweighs the others of the sum, which are small: {hidden}")
        if max(own.values()) > self.largest_ratio * min(own.values()) * (1 + _ROUNDING):
            times = f"{max(own.values()) / min(own.values()):.0f} times the weight of another"
            _refuse(f"one client has {times} in the sum, but at most {self.largest_ratio:g} times is allowed")

    def allow(self, weights: Mapping[int, float], contributors: Collection[int]) -> bool:
        """Return whether `check` passes."""
        try:
            self.check(weights, contributors)
        except Rejected:
            return False
        return True

    def weights(self, samples: Mapping[int, int]) -> dict[int, float]:
        """Return n_i / Σ n_j of all members, changed as far as needed for their sum to meet the rules.

        A client with very few samples counts more. A client with most of the samples counts less, so that the others
        are a quorum without it, and any single client may be absent if the rest are enough. Clients report their
        numbers of samples themselves, so a run must not depend on one that lies.
        """
        least = max(samples.values()) / self.largest_ratio
        masses: dict[int, float] = {client: max(own, least) for client, own in samples.items()}
        most = self._bound(sorted(masses.values(), reverse=True))
        masses = {client: min(own, most) for client, own in masses.items()}
        total, even = sum(masses.values()), 1 / len(masses)
        shares = {client: own / total for client, own in masses.items()}
        return _capped(shares, max(min(self.largest_weight, 1 - self.quorum), even))

    def shares(self, samples: Mapping[int, int], *, whole: bool) -> tuple[dict[int, float], dict[int, int] | None]:
        """Return the weights and, with `whole`, the aggregator's integer factors in the same proportion.

        Factors are the numbers of samples, unless the rules change weights. Then they are rounded so that the rules
        still hold.
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
        """Return the largest mass with which a client never dominates, whichever other clients collude or are absent.

        For each of the t + 1 largest clients, the others without the t largest of them are the same set.
        """
        spare = len(ranked) > max(self.min_contributors, self.colluders + 2)
        others = ranked[self.colluders + 1 + spare :]
        if not self.colluders or self.largest_weight >= 1 or not others:
            return math.inf
        share = self.largest_weight / (1 - self.largest_weight) * sum(others)
        return min(share, math.sqrt(LARGEST_SQUARE / (1 - LARGEST_SQUARE)) * math.hypot(*others))


def _capped(shares: dict[int, float], most: float) -> dict[int, float]:
    """Return shares of at most `most`; the excess goes to the others, in proportion."""
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
