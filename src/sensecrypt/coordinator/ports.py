"""What the coordinator needs from outside: a way to the clients, patience with them, and who may look on.

A new way for messages to travel is a class with the methods of `Transport`; the key service is `keyservice.port`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sensecrypt import checks
from sensecrypt.errors import Rejected
from sensecrypt.protocol.requests import Parts
from sensecrypt.protocol.round import Round
from sensecrypt.records import Record, Refusal


class Unanswered(Rejected):
    """A client from which nothing came: gone, failed, or too late."""


@dataclass(frozen=True, eq=False)
class Reply:
    """A client's answer.

    Attributes:
        client: which.
        parts: what it sent; None: nothing, because it is gone, failed or too late.
        failure: why there is nothing.
        seconds: between sending it the request and seeing its answer; None: not known.
    """

    client: int
    parts: Parts | None
    failure: str = ""
    seconds: float | None = None

    @property
    def content(self) -> Parts:
        """What it sent, or `Unanswered`."""
        if self.parts is None:
            raise Unanswered(self.failure)
        return self.parts


class Transport(Protocol):
    """The way to the clients."""

    def present(self, *, seconds: float) -> Mapping[int, Hashable]:
        """The clients that can be asked now, each with a token that changes when it comes back anew.

        Args:
            seconds: for clients that are new to prove who they are.
        """

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
        """Send each client its request; its reply, or that there is none, exactly once per client.

        Args:
            kind: of the request: `enrol`, `rank`, `propose`, `train` or `finish`.
            requests: the parts of each client's message.
            seconds: after which nobody is waited for.
        """

    def refusals(self) -> list[Refusal]:
        """Peers that were refused since the last call, and why: for the run's records."""


@dataclass(frozen=True)
class Patience:
    """How long the coordinator waits, in seconds.

    Attributes:
        enrolment: for clients before the first round.
        deadline: for the replies of a round.
        pause: between two looks at who is there.
    """

    enrolment: float = 300.0
    deadline: float = 3600.0
    pause: float = 2.0

    @property
    def proof(self) -> float:
        """For a client that is new to say who it is."""
        return min(60.0, self.deadline)


class Observer:
    """Sees what passes the coordinator. This one does nothing; a simulation records and evaluates."""

    def described(self, rows: Mapping[int, checks.FloatVector]) -> None:
        """What described each client's data for clustering."""

    def arrived(self, round_: Round, client: int, upload: bytes) -> None:
        """An upload that counts."""

    def released(self, round_: Round, aggregate: bytes) -> None:
        """A sum of models that the key service has decrypted."""

    def end_of_round(self, number: int, labels: Sequence[int], records: list[Record]) -> None:
        """All records of a round, before they are written; `records` may be changed."""
