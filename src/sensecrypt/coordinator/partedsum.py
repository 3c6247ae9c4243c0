"""A round's sum in parts, so that it can be released without one of them if it does not match its tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import Refused, Rejected
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.costs import Cost
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round

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
