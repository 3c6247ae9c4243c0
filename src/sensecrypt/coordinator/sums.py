"""Sums in parts, so that whoever spoils one is found: nobody can look into an upload.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import Refused, Rejected
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.worktime import Cost

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


MISMATCH = "tags-mismatch"


class PartedSum:
    """One running sum a part; each member is in one."""

    def __init__(
        self, round_: Round, public: EncryptionKey, parts: Sequence[Collection[int]], *, whole: bool = False
    ) -> None:
        """Empty sums; `parts` are the members of each. With `whole`, a part counts once all of them are in it."""
        self.round, self._public, self._least = round_, public, [len(part) if whole else 0 for part in parts]
        self._sums = [RoundSum(round_, public) for _ in parts]
        self.counted = False  # whether somebody was charged with its cost
        self._part = {client: part for part, clients in enumerate(parts) for client in clients}

    @property
    def contributors(self) -> tuple[int, ...]:
        """Whose uploads are in the sum."""
        return tuple(sorted(client for each in self._counting() for client in self._sums[each].contributors))

    @property
    def arrived(self) -> set[int]:
        """Whose uploads were added, also to parts that are not whole."""
        return {client for each in self._sums for client in each.contributors}

    @property
    def cost(self) -> Cost:
        """Of everything that was added."""
        return self.cost_with()

    def cost_with(self, *more: RoundSum) -> Cost:
        """Of everything that was added, and of these sums."""
        cost = Cost()
        for each in (*self._sums, *(each for each in more if each not in self._sums)):
            cost.include(each.cost)
        return cost

    def add(self, data: bytes, *, sender: int) -> None:
        """Validate one upload and add it to its part; a `Rejected` one leaves all sums as they were."""
        if sender not in self._part:
            raise Rejected(f"client {sender} was not asked")
        self._sums[self._part[sender]].add(data, sender=sender)

    def total(self, *, without: int | None = None) -> RoundSum:
        """All parts, or all but one, as one sum."""
        parts = [self._sums[part] for part in self._counting() if part != without]
        if len(self._sums) == 1 and parts:
            return parts[0]
        total = RoundSum(self.round, self._public)
        for part in parts:
            total.absorb(part)
        return total

    def _counting(self) -> list[int]:
        return [part for part, each in enumerate(self._sums) if len(each.contributors) >= self._least[part]]

    def of_part(self, part: int | None) -> tuple[int, ...]:
        """Whose uploads are in a part; of None, nobody's."""
        return () if part is None or part not in self._counting() else self._sums[part].contributors

    def open_most(
        self, rules: ReleaseRules, release_sum: Callable[[int | None], None], *, first: int | None = None
    ) -> int | None:
        """Have the sum released; if it does not match its tags, without one part, and else without another.

        Args:
            rules: of the key server; what it would refuse unseen is not handed in.
            release_sum: has `total(without=…)` released; raises `Refused` if it is not.
            first: the part to leave out before all others; None: at first nobody is left out.

        Returns:
            The part that had to be left out.
        """
        rules.check(self.round.weights, self.contributors)
        mismatch: Refused | Rejected | None = None
        choices: list[int | None] = [first, *(part for part in range(len(self._sums)) if part != first)]
        for part in choices:
            left_out = self.of_part(part)
            rest = [client for client in self.contributors if client not in left_out]
            if part is not None and not (left_out and rules.allow(self.round.weights, rest)):
                continue
            try:
                release_sum(part)
                return part
            except (Refused, Rejected) as error:
                if error.code != MISMATCH:
                    raise
                mismatch = mismatch or error
        raise mismatch or Rejected("nothing to open")
