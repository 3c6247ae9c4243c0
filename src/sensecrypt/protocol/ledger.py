"""The ledger stores the key server's state: in memory here, in a database in the service.

Every method is atomic: if threads store two tags of one client, or two releases of one round, exactly one is kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sensecrypt import checks
from sensecrypt.errors import Rejected
from sensecrypt.protocol.messages import Tag
from sensecrypt.protocol.round import Round, RoundAddress, address_of
from sensecrypt.protocol.updates import ReleasedSum


@dataclass(frozen=True, eq=False)
class ImportanceOrder:
    """A cluster's importance order of the parameters.

    Attributes:
        order: slot s holds parameter order[s].
        sensitivities: the cluster's mean sensitivity of each block along the order.
    """

    order: checks.IntVector
    sensitivities: checks.FloatVector


class Ledger(Protocol):
    """The stored state of a key server."""

    @property
    def root(self) -> bytes:
        """The 32 random bytes from which all seeds are derived; they never change."""

    def ranking(self, run: str, cluster: int) -> ImportanceOrder | None:
        """Return the cluster's latest order; None: it has none."""

    def ranking_of(self, round_: Round) -> ImportanceOrder | None:
        """Return the order that the members of this round use."""

    def keep_ranking(self, run: str, cluster: int, ranking: ImportanceOrder) -> None:
        """Store a new order of the cluster."""

    def keep_tag(self, round_: Round, tag: Tag) -> bool:
        """Store a client's tag and return True; if there is one already, change nothing and return False."""

    def tags(self, round_: Round) -> Mapping[int, Tag]:
        """Return all tags of the round, by client; after the round's release, without their blinding seeds."""

    def was_released(self, round_: Round) -> bool:
        """Return whether a sum of this round was released, at any attempt."""

    def keep_released(self, round_: Round, released: ReleasedSum) -> None:
        """Mark the round as released and delete its blinding seeds; raise `Rejected` if it was released before."""

    def released(self, run: str, purpose: str) -> Sequence[Mapping[int, float]]:
        """Return clients and weights of every released sum of the run and purpose, in all clusters."""


class MemoryLedger:
    """A ledger in memory, for a key server that runs as long as the run."""

    def __init__(self) -> None:
        """Start empty, with a root from the operating system."""
        self.root = secrets.token_bytes(32)
        self._rankings: dict[tuple[str, int], ImportanceOrder] = {}
        self._tags: dict[RoundAddress, dict[int, Tag]] = {}
        self._released: dict[tuple[str, int, int, str], Mapping[int, float]] = {}  # by round, without the attempt

    def ranking(self, run: str, cluster: int) -> ImportanceOrder | None:
        """Return the cluster's latest order; None: it has none."""
        return self._rankings.get((run, cluster))

    def ranking_of(self, round_: Round) -> ImportanceOrder | None:
        """Return the latest order: in one process, no order changes during a round."""
        return self._rankings.get((round_.run, round_.cluster))

    def keep_ranking(self, run: str, cluster: int, ranking: ImportanceOrder) -> None:
        """Store a new order of the cluster."""
        self._rankings[run, cluster] = ranking

    def keep_tag(self, round_: Round, tag: Tag) -> bool:
        """Store a client's first tag and return True; return False for another one."""
        kept = self._tags.setdefault(address_of(round_), {})
        if tag.client in kept:
            return False
        kept[tag.client] = tag
        return True

    def tags(self, round_: Round) -> Mapping[int, Tag]:
        """Return all tags of the round, by client."""
        return self._tags.get(address_of(round_), {})

    def was_released(self, round_: Round) -> bool:
        """Return whether a sum of this round was released, at any attempt."""
        return address_of(round_).round in self._released

    def keep_released(self, round_: Round, released: ReleasedSum) -> None:
        """Mark the round as released, and delete the tags of all its attempts."""
        if self.was_released(round_):
            raise Rejected("this sum was decrypted already", code="already-decrypted")
        done = address_of(round_).round
        self._released[done] = {client: round_.weights[client] for client in released.contributors}
        self._tags = {place: kept for place, kept in self._tags.items() if place.round != done}

    def released(self, run: str, purpose: str) -> Sequence[Mapping[int, float]]:
        """Return clients and weights of every released sum of the run and purpose."""
        return [weights for key, weights in self._released.items() if (key[0], key[3]) == (run, purpose)]
