"""Fixed groups: sums of several rounds, taken together, tell no fewer clients apart than one sum may have.

Two rounds of nearly the same updates, one without a client, give that client's update by subtraction; three rounds can
do so though no two of them differ by few. What any combination of released sums tells apart are the groups of clients
that were always in a sum together: each sum has all of a group, or none of it, so whatever is computed from sums has
the same factor for all of a group. The rule is that every such group has at least as many clients as a sum must have.
That needs weights within a group that stay in proportion: with others, the same clients twice are two equations.

It holds for what is computed by adding and subtracting sums. Only noise on the sum holds for everything else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from sensecrypt.errors import Rejected

CODE = "groups"
_ROUNDING = 1e-6

Weights = Mapping[int, float]  # of everybody in a sum


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
        reason = f"with the sums released before, it would tell {smallest} client(s) apart, at least {least} are needed"
        raise Rejected(reason, code=CODE)
    for (here, *there), clients in groups.items():
        for before in (each for each, present in zip(earlier, there, strict=True) if here and present):
            ratios = [now[client] / before[client] for client in clients]
            if max(ratios) > min(ratios) * (1 + _ROUNDING):
                raise Rejected("the weights within a group have changed since an earlier sum", code=CODE)


def make_groups(members: Collection[int], least: int) -> list[set[int]]:
    """Members in groups of `least`, in order; the last ones have the remainder. Fewer members are one group."""
    clients, many = sorted(members), max(1, len(members) // least)
    return [set(clients[len(clients) * part // many : len(clients) * (part + 1) // many]) for part in range(many)]
