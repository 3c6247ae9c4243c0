"""Whose tags are wrong, found by leaving clients out: nobody can look into an upload.

A sum that does not match its tags tells that somebody in it is wrong, not who. Sums are in parts, and one is released
without the part that spoils it (`PartedSum`). Whoever was in that part is suspected. From then on half of the suspects
are asked to play, as a part of their own: if the sum matches, they are cleared; if it matches only without them, it is
one of them. A suspect that spoils a sum all by itself is found, and not asked again.

Every sum that fails answers a question about ciphertexts, so the key service allows few. One client is found at the
price of two failures and half of one for each halving, about four among twenty. Two in different parts spoil all sums.
And what is found is evidence, not proof: a member that sends values near the limit of a slot, and signs for them, makes
sums fail with others in it that match without these.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping

from sensecrypt.protocol.releaserules import ReleaseRules

PARTS = 3
_TRIES = 50
UNFORESEEN = random.SystemRandom()  # who foresees the parts could see to it that two culprits are in different ones


class Exclusion:
    """Of one run, by cluster; a coordinator that starts again suspects nobody."""

    def __init__(self) -> None:
        """Nobody is suspected."""
        self._suspects: dict[int, set[int]] = {}
        self.found: set[int] = set()

    def invited(
        self,
        cluster: int,
        weights: Mapping[int, float],
        *,
        present: Collection[int],
        quorum: float,
        rng: random.Random = UNFORESEEN,
    ) -> set[int]:
        """The members to ask: all but half of the suspects, if those who are present are a quorum without them."""
        suspects = sorted(self._suspects.get(cluster, ()) & weights.keys())
        resting = set(rng.sample(suspects, len(suspects) // 2))
        if sum(weights[client] for client in weights.keys() & present if client not in resting) < quorum:
            resting = set()
        return weights.keys() - resting - self.found

    def parts(
        self,
        cluster: int,
        invited: Collection[int],
        weights: Mapping[int, float],
        rules: ReleaseRules,
        *,
        rng: random.Random = UNFORESEEN,
    ) -> list[set[int]]:
        """The suspects and all others; if nobody is suspected, three parts, any of which can be left out.

        Where the `rules` for sums do not allow that, in small clusters or with a high quorum, four, or one a client.
        """
        suspects, clients = self._suspects.get(cluster, set()) & set(invited), sorted(invited)
        if suspects:
            return [suspects, set(invited) - suspects]
        for many in [PARTS] * _TRIES + [PARTS + 1] * _TRIES:
            rng.shuffle(clients)
            parts = [set(clients[part::many]) for part in range(many)]
            if all(rules.allow(weights, set(invited) - part) for part in parts):
                return parts
        return [{client} for client in clients]

    def learn(self, cluster: int, released: Iterable[int], left_out: Iterable[int]) -> None:
        """A sum of `released` matched; with those `left_out` in it, it did not."""
        wrong = set(left_out)
        if len(wrong) == 1:
            self.found |= wrong
            wrong = set()
        elif not wrong:
            wrong = self._suspects.get(cluster, set()) - set(released)
        self._suspects[cluster] = wrong

    def forget(self, cluster: int) -> None:
        """No part explained the failure: start again."""
        self._suspects.pop(cluster, None)
