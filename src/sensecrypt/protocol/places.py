"""The address of a round: by it, coordinator, clients and key service speak of the same one."""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.protocol.round import Round


@dataclass(frozen=True)
class Place:
    """Which round a request is about."""

    run: str
    number: int
    cluster: int
    purpose: str
    attempt: int

    @property
    def round(self) -> tuple[str, int, int, str]:
        """Whatever the attempt."""
        return self.run, self.number, self.cluster, self.purpose

    @property
    def all(self) -> tuple[str, int, int, str, int]:
        """With the attempt."""
        return (*self.round, self.attempt)


def place_of(round_: Round) -> Place:
    """Where a round is kept."""
    return Place(round_.run, round_.number, round_.cluster, round_.purpose, round_.attempt)
