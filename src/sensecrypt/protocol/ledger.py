"""What a key server must not forget, and where it is kept: in memory here, in a database in a service.

Every method is atomic. A ledger that several threads use sees to it that of two tags of one client, or two releases
of one round, exactly one is kept.
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
    """A cluster's order of the parameters.

    Attributes:
        order: slot s holds parameter order[s].
        sensitivities: the cluster's mean sensitivity of each block along it.
    """

    order: checks.IntVector
    sensitivities: checks.FloatVector


class Ledger(Protocol):
    """The memory of a key server."""

    @property
    def root(self) -> bytes:
        """What all seeds are derived from: 32 random bytes, always the same."""

    def ranking(self, run: str, cluster: int) -> ImportanceOrder | None:
        """The cluster's latest order, if it has one."""

    def ranking_of(self, round_: Round) -> ImportanceOrder | None:
        """The order that the members of this round were told."""

    def keep_ranking(self, run: str, cluster: int, ranking: ImportanceOrder) -> None:
        """A new order for the cluster."""

    def keep_tag(self, round_: Round, tag: Tag) -> bool:
        """Keep a client's tag; False, and nothing is changed, if there is one already."""

    def tags(self, round_: Round) -> Mapping[int, Tag]:
        """All tags of the round, by client; of a round that was released, without their blinding seeds."""

    def was_released(self, round_: Round) -> bool:
        """Whether a sum of this round, at whatever attempt, was decrypted and verified."""

    def keep_released(self, round_: Round, released: ReleasedSum) -> None:
        """The round is released from now on, and its blinding seeds are forgotten; `Rejected` if it was before."""

    def released(self, run: str, purpose: str) -> Sequence[Mapping[int, float]]:
        """Of every sum of the run and purpose that was released, in whatever cluster: its clients and their weights."""


class MemoryLedger:
    """Forgets everything when its process ends: for a key server that lives as long as the run."""

    def __init__(self) -> None:
        """Empty; its root comes from the operating system."""
        self.root = secrets.token_bytes(32)
        self._rankings: dict[tuple[str, int], ImportanceOrder] = {}
        self._tags: dict[RoundAddress, dict[int, Tag]] = {}
        self._released: dict[tuple[str, int, int, str], Mapping[int, float]] = {}  # by round, whatever the attempt

    def ranking(self, run: str, cluster: int) -> ImportanceOrder | None:
        """The cluster's latest order, if it has one."""
        return self._rankings.get((run, cluster))

    def ranking_of(self, round_: Round) -> ImportanceOrder | None:
        """The latest: in one process, no order changes while a round goes on."""
        return self._rankings.get((round_.run, round_.cluster))

    def keep_ranking(self, run: str, cluster: int, ranking: ImportanceOrder) -> None:
        """A new order for the cluster."""
        self._rankings[run, cluster] = ranking

    def keep_tag(self, round_: Round, tag: Tag) -> bool:
        """Keep a client's tag, if it is the first."""
        kept = self._tags.setdefault(address_of(round_), {})
        if tag.client in kept:
            return False
        kept[tag.client] = tag
        return True

    def tags(self, round_: Round) -> Mapping[int, Tag]:
        """All tags of the round, by client."""
        return self._tags.get(address_of(round_), {})

    def was_released(self, round_: Round) -> bool:
        """Whether a sum of this round, at whatever attempt, was decrypted and verified."""
        return address_of(round_).round in self._released

    def keep_released(self, round_: Round, released: ReleasedSum) -> None:
        """The round is released from now on, and the tags of all its attempts are forgotten."""
        if self.was_released(round_):
            raise Rejected("this sum was decrypted already", code="already-decrypted")
        done = address_of(round_).round
        self._released[done] = {client: round_.weights[client] for client in released.contributors}
        self._tags = {place: kept for place, kept in self._tags.items() if place.round != done}

    def released(self, run: str, purpose: str) -> Sequence[Mapping[int, float]]:
        """The clients and weights of every sum of the run and purpose that was released."""
        return [weights for key, weights in self._released.items() if (key[0], key[3]) == (run, purpose)]
