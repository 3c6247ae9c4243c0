"""Whose receipts are wrong, found by leaving clients out: nobody can look into an upload.

A sum that does not match its receipts tells that somebody in it is wrong, not who. Sums are in parts, and one is opened
without the part that spoils it (`PartedSum`). Whoever was in that part is suspected. From then on half of the suspects
are asked to play, as a part of their own: if the sum matches, they are cleared; if it matches only without them, it is
one of them. A suspect that spoils a sum all by itself is found, and not asked again.

Every sum that fails answers a question about ciphertexts, so the key service allows few. One client is found at the
price of two failures and half of one for each halving, about four among twenty. Two in different parts spoil all sums.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping

PARTS = 3
_draw = random.SystemRandom()  # whoever could foresee the parts could see to it that two culprits are in different ones


class Suspicion:
    """Of one run, by cluster; a ServerApp that starts again suspects nobody."""

    def __init__(self) -> None:
        """Nobody is suspected."""
        self._suspects: dict[int, set[int]] = {}
        self.found: set[int] = set()

    def invited(self, cluster: int, weights: Mapping[int, float], quorum: float) -> set[int]:
        """The members to ask: all but half of the suspects, as long as the others are a quorum without them."""
        suspects = sorted(self._suspects.get(cluster, ()) & weights.keys())
        resting = set(_draw.sample(suspects, len(suspects) // 2))
        if sum(weight for client, weight in weights.items() if client not in resting) < quorum:
            resting = set()
        return weights.keys() - resting - self.found

    def parts(self, cluster: int, invited: Collection[int], weights: Mapping[int, float]) -> list[set[int]]:
        """The suspects and all others; if nobody is suspected, three parts of about the same weight."""
        suspects = self._suspects.get(cluster, set()) & set(invited)
        if suspects:
            return [suspects, set(invited) - suspects]
        parts: list[set[int]] = [set() for _ in range(PARTS)]
        clients = sorted(invited)
        _draw.shuffle(clients)
        for client in sorted(clients, key=lambda each: -weights[each]):
            min(parts, key=lambda part: sum(weights[each] for each in part)).add(client)
        return parts

    def learn(self, cluster: int, opened: Iterable[int], left_out: Iterable[int]) -> None:
        """A sum of `opened` matched; with those `left_out` in it, it did not."""
        wrong = set(left_out)
        if len(wrong) == 1:
            self.found |= wrong
            wrong = set()
        elif not wrong:
            wrong = self._suspects.get(cluster, set()) - set(opened)
        self._suspects[cluster] = wrong

    def forget(self, cluster: int) -> None:
        """No part explained the failure: start again."""
        self._suspects.pop(cluster, None)
