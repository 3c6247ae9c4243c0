"""Which clients are enrolled, and what each reported of itself."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable

from sensecrypt.coordinator.ports import Reply, Transport, Unanswered
from sensecrypt.errors import SenseCryptError
from sensecrypt.protocol.coordination import Enrolment, Invitation, facts_from_bytes, require_parts
from sensecrypt.records import Facts, Refusal

_LOG = logging.getLogger("sensecrypt.coordinator")
_LEAST_SECONDS = 1e-3  # of a delay: no clock tells shorter ones apart


class Registry:
    """The clients that have enrolled since the coordinator started."""

    def __init__(self, transport: Transport, members: Iterable[int], sketch_seed: bytes) -> None:
        """Nobody yet; `members` are all who may come."""
        self._transport, self._members, self._sketch_seed = transport, set(members), sketch_seed
        self._asked: dict[int, Hashable] = {}
        self._present: set[int] = set()
        self._refused: list[Refusal] = []
        self.excluded: set[int] = set()
        self.last_refusal = ""
        self.enrolments: dict[int, Enrolment] = {}
        self.facts: dict[int, Facts] = {}
        self.bandwidths: dict[int, float] = {}  # megabytes per second of each client's first answer

    @property
    def present(self) -> set[int]:
        """The enrolled clients that could be asked at the last look."""
        return self._present & self.enrolments.keys()

    def look(self, *, seconds: float) -> None:
        """See who is there, and have those who are new enrol; one that is refused gets a line in the log."""
        there = self._transport.present(seconds=seconds)
        for refusal in self._transport.refusals():
            self.last_refusal = refusal.refused
            self._refused.append(refusal)
        self._present = set(there) - self.excluded
        self._asked = {client: token for client, token in self._asked.items() if there.get(client) == token}
        new = sorted(self._present - self._asked.keys())
        invitation = {"invitation": Invitation(self._sketch_seed).to_bytes()}
        for reply in self._transport.ask("enrol", dict.fromkeys(new, invitation), seconds=seconds):
            try:
                parts = require_parts(reply.content, needed={"enrolment", "facts"})
                enrolment = Enrolment.from_bytes(parts["enrolment"])
                facts = facts_from_bytes(parts["facts"], "enrol")
            except Unanswered as error:  # it is asked again
                _LOG.warning("client %d does not enrol: %s", reply.client, error)
                continue
            except SenseCryptError as error:
                self._asked[reply.client] = there[reply.client]
                self._note(reply.client, str(error))
                continue
            self._asked[reply.client] = there[reply.client]
            self.enrolments[reply.client], self.facts[reply.client] = enrolment, facts
            self.measure(reply)
            _LOG.info("client %d is enrolled", reply.client)

    def measure(self, reply: Reply) -> None:
        """Note how fast a client's first answer was, if that can be told."""
        if reply.seconds is not None:
            sent = sum(map(len, reply.content.values()))
            self.bandwidths.setdefault(reply.client, sent / 1e6 / max(reply.seconds, _LEAST_SECONDS))

    def refuse(self, client: int, reason: str) -> None:
        """Take a client that has enrolled off the list."""
        if client in self.enrolments:
            self._note(client, reason)
            del self.enrolments[client], self.facts[client]

    def exclude(self, client: int, reason: str) -> None:
        """Take a client off the list, and not back."""
        self.excluded.add(client)
        self.refuse(client, reason)

    def take_refusals(self) -> list[Refusal]:
        """Clients and peers that were refused since the last call, and why."""
        taken, self._refused = self._refused, []
        return taken

    def missing(self) -> list[int]:
        """Members that have not come, and may."""
        return sorted(self._members - self.enrolments.keys() - self.excluded)

    def _note(self, client: int, reason: str) -> None:
        _LOG.warning("client %d is not enrolled: %s", client, reason)
        self.last_refusal = reason
        self._refused.append(Refusal(refused_client=client, refused=reason))
