"""The coordinator's interfaces: the transport to the clients, time limits, and an observer.

A new transport is a class with the methods of `Transport`. The interface of the key service is `keyservice.port`.
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
    """No answer of a client: it is gone, failed, or too late."""


@dataclass(frozen=True, eq=False)
class Reply:
    """A client's answer.

    Attributes:
        client: the client's number.
        parts: the answer; None: there is none, because the client is gone, failed or too late.
        failure: the reason if there is no answer.
        seconds: the seconds between request and answer; None: not known.
    """

    client: int
    parts: Parts | None
    failure: str = ""
    seconds: float | None = None

    @property
    def content(self) -> Parts:
        """The answer; raises `Unanswered` if there is none."""
        if self.parts is None:
            raise Unanswered(self.failure)
        return self.parts


class Transport(Protocol):
    """The transport to the clients."""

    def present(self, *, seconds: float) -> Mapping[int, Hashable]:
        """Return the reachable clients, each with a token that changes when the client reconnects.

        Args:
            seconds: time for new clients to prove their identity.
        """

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
        """Send each client its request, and yield exactly one reply per client, also if it does not answer.

        Args:
            kind: the kind of request: `enrol`, `rank`, `propose`, `train` or `finish`.
            requests: the parts of each client's message.
            seconds: time limit for the replies.
        """

    def refusals(self) -> list[Refusal]:
        """Return the refused peers since the last call, for the run's records."""


@dataclass(frozen=True)
class Patience:
    """How long the coordinator waits, in seconds.

    Attributes:
        enrolment: for clients to enrol before the first round.
        deadline: for the replies of a round.
        pause: between two checks of which clients are reachable.
    """

    enrolment: float = 300.0
    deadline: float = 3600.0
    pause: float = 2.0

    @property
    def proof(self) -> float:
        """The time limit for a new client to prove its identity."""
        return min(60.0, self.deadline)


class Observer:
    """Is called with what passes the coordinator. This class does nothing; a simulation records and evaluates."""

    def described(self, rows: Mapping[int, checks.FloatVector]) -> None:
        """Receive the clients' vectors for clustering."""

    def arrived(self, round_: Round, client: int, upload: bytes) -> None:
        """Receive an upload that was added."""

    def released(self, round_: Round, aggregate: bytes) -> None:
        """Receive a sum of models that the key service has decrypted."""

    def end_of_round(self, number: int, labels: Sequence[int], records: list[Record]) -> None:
        """Receive all records of a round before they are written; `records` may be changed."""
