"""Sums in parts: group testing finds a client whose tags do not match, although no upload can be read.

A sum that does not match its tags shows that an upload in it is wrong, but not which one. So a sum has several parts,
and is released without the part that makes it fail (`PartedSum`). The clients of that part are suspects. In later
rounds, half of the suspects take part, in a part of their own: if the sum matches, they are cleared; if it matches only
without them, one of them is wrong. A suspect that is alone in such a part is found, and is not asked again.

Every failing sum reveals a bit about ciphertexts, so the key service allows few failures. Finding one client costs two
failures plus half a failure per halving, about four among twenty clients. Two wrong clients in different parts make all
sums fail. A finding is evidence, not proof: a member that sends values near the limit of a slot, with matching tags,
can make sums overflow only together with the uploads of others.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import Refused, Rejected
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.worktime import Cost

PARTS = 3
MISMATCH = "tags-mismatch"
UNFORESEEN = random.SystemRandom()  # unpredictable: two deviating clients must not arrange to be in different parts
_TRIES = 50
_LOG = logging.getLogger("sensecrypt.coordinator")


class PartedSum:
    """One running sum per part; each invited client is in one part."""

    def __init__(
        self,
        round_: Round,
        public: EncryptionKey,
        parts: Sequence[Collection[int]],
        *,
        tags: Callable[[Round], Collection[int]],
        whole: bool = False,
    ) -> None:
        """Start with empty sums.

        Args:
            round_: the round.
            public: the run's key.
            parts: the clients of each part.
            tags: returns the clients whose tags of a round the key service has.
            whole: whether a part counts only if all of its clients are in it.
        """
        self.round, self.cost = round_, Cost()
        self._public, self._parts, self._tags, self._whole = public, parts, tags, whole
        self._sums = [RoundSum(round_, public, cost=self.cost) for _ in parts]
        self._part = {client: part for part, clients in enumerate(parts) for client in clients}
        self._tagged: set[int] = set()

    def of_same_parts(self, round_: Round) -> PartedSum:
        """Return an empty sum of another round with the same parts."""
        return PartedSum(round_, self._public, self._parts, tags=self._tags, whole=self._whole)

    @property
    def arrived(self) -> set[int]:
        """The clients whose uploads were added, including those in incomplete parts."""
        return {client for each in self._sums for client in each.contributors}

    @property
    def contributors(self) -> tuple[int, ...]:
        """The clients whose uploads count."""
        return tuple(sorted(client for part in range(len(self._sums)) for client in self.of_part(part)))

    def of_part(self, part: int | None) -> tuple[int, ...]:
        """Return the clients whose uploads count in a part; for None, an empty tuple."""
        if part is None or (self._whole and len(self._sums[part].contributors) < len(self._parts[part])):
            return ()
        return self._sums[part].contributors

    def add(self, data: bytes, *, sender: int) -> None:
        """Validate an upload and add it; raise `Rejected` if it is invalid or the key service has no tag of it."""
        if sender not in self._part:
            raise Rejected(f"client {sender} was not asked")
        if sender not in self._tagged:  # one request for all tags that have arrived, not one per upload
            self._tagged = set(self._tags(self.round))
        if sender not in self._tagged:
            raise Rejected("an upload for which the key service has no tag")
        self._sums[self._part[sender]].add(data, sender=sender)

    def total(self, *, without: int | None = None) -> RoundSum:
        """Return the sum of all parts, or of all but one."""
        parts = [each for part, each in enumerate(self._sums) if part != without and self.of_part(part)]
        if len(parts) == 1:
            return parts[0]
        total = RoundSum(self.round, self._public, cost=self.cost)
        for each in parts:
            total.absorb(each)
        return total

    def choices(self, rules: ReleaseRules, first: int | None) -> list[int | None]:
        """Return the parts that may be left out, `first` before the others; None stands for leaving out none.

        Choices that violate the release rules are not included; raise `Rejected` if the sum of all contributors does.
        """
        weights, contributors = self.round.weights, self.contributors
        rules.check(weights, contributors)
        choices: list[int | None] = []
        for part in [first, *(part for part in range(len(self._sums)) if part != first)]:
            left_out = self.of_part(part)
            rest = [client for client in contributors if client not in left_out]
            if part is None or (left_out and rules.allow(weights, rest)):
                choices.append(part)
        return choices


class Exclusion:
    """The suspects of one run by cluster, and the clients that were found; a restarted coordinator has none."""

    def __init__(self) -> None:
        """Start without suspects."""
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
        """Return the members to ask: all but half of the suspects, if the other reachable members are a quorum."""
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
        """Return the parts: suspects and others; without suspects, three parts, each of which can be left out.

        If the `rules` do not allow leaving out a third, in small clusters or with a high quorum, there are four parts,
        or one per client.
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

    def release(
        self,
        total: PartedSum,
        rules: ReleaseRules,
        release_sum: Callable[[int | None], None],
        *,
        first: int | None = None,
    ) -> int | None:
        """Have a sum released; if it does not match its tags, try without each part in turn.

        Args:
            total: the sum.
            rules: the key server's release rules.
            release_sum: has `total(without=…)` released; raises `Refused` if the key service refuses it.
            first: the part to leave out first; None: first try the sum of all parts.

        Returns:
            The part that was left out; its clients are now suspects.
        """
        cluster, mismatch = total.round.cluster, None
        try:
            for part in total.choices(rules, first):
                try:
                    release_sum(part)
                except (Refused, Rejected) as error:
                    if error.code != MISMATCH:
                        raise
                    mismatch = mismatch or error
                    continue
                left_out = total.of_part(part)
                if left_out:
                    _LOG.warning(
                        "cluster %d: the sum matches without clients %s", cluster, ", ".join(map(str, left_out))
                    )
                self.learn(cluster, set(total.contributors) - set(left_out), left_out)
                return part
            raise mismatch or Rejected("no sum may be released")
        except (Refused, Rejected):
            self.forget(cluster)
            raise

    def learn(self, cluster: int, released: Iterable[int], left_out: Iterable[int]) -> None:
        """Update the suspects: the sum of `released` matched, and with those `left_out` it did not."""
        wrong = set(left_out)
        if len(wrong) == 1:
            self.found |= wrong
            wrong = set()
        elif not wrong:
            wrong = self._suspects.get(cluster, set()) - set(released)
        self._suspects[cluster] = wrong

    def forget(self, cluster: int) -> None:
        """Remove all suspects of a cluster, because no part explained the failure."""
        self._suspects.pop(cluster, None)
