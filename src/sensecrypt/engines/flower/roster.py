"""Who is there: which Flower node is which client, proven by the client's certificate, and what each said of itself."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from flwr.serverapp import Grid

from sensecrypt.engines.flower.exchange import Reply, Unanswered, ask
from sensecrypt.engines.flower.messages import Challenge, Enrolment, facts_from_bytes
from sensecrypt.engines.flower.proof import Statement, check_proof
from sensecrypt.engines.flower.wire import unpack
from sensecrypt.engines.outcome import Record
from sensecrypt.errors import Rejected, SenseCryptError

_LOG = logging.getLogger("sensecrypt.fleet")
_PARTS = {"proof", "enrolment", "facts"}
_LEAST_SECONDS = 1e-3  # of a delay: no clock tells shorter ones apart


class Roster:
    """The clients that have enrolled since the ServerApp started."""

    def __init__(self, grid: Grid, run: str, members: dict[str, int], authority: Path, sketch_seed: bytes) -> None:
        """Nobody yet; `members` are the numbers of all who may come, by their certificates' names."""
        self._grid, self._run, self._members, self._authority = grid, run, members, authority
        self._sketch_seed = sketch_seed
        self._clients: dict[int, int] = {}  # by node
        self._asked: set[int] = set()
        self._refused: list[Record] = []
        self._dismissed: set[int] = set()
        self.last_refusal = ""
        self.enrolments: dict[int, Enrolment] = {}
        self.facts: dict[int, Record] = {}
        self.bandwidths: dict[int, float] = {}  # megabytes per second of each client's first answer

    def nodes(self) -> dict[int, int]:
        """The node of every client that is there now."""
        online = set(self._grid.get_node_ids())
        return {client: node for node, client in self._clients.items() if node in online}

    def look(self, *, seconds: float) -> None:
        """Ask every node that is new who it is; what does not prove anything is left alone, with a line in the log."""
        online = set(self._grid.get_node_ids())
        self._asked &= online  # who went and came back is asked again
        new = sorted(online - self._asked)
        nonces = {node: secrets.token_hex(16) for node in new}
        requests = {node: {"challenge": Challenge(nonces[node], self._sketch_seed).to_bytes()} for node in new}
        for reply in ask(self._grid, "query.enrol", requests, seconds=seconds):
            try:
                self._enrol(reply, Statement(self._run, reply.node, nonces[reply.node]))
                self._asked.add(reply.node)
            except Unanswered as error:  # it is asked again
                _LOG.warning("node %d: %s", reply.node, error)
            except SenseCryptError as error:
                self._asked.add(reply.node)
                self._note(reply.node, str(error))

    def refuse(self, client: int, reason: str) -> None:
        """Take a client that has enrolled off the list."""
        for node in [node for node, known in self._clients.items() if known == client]:
            del self._clients[node]
            self._note(node, reason)
        del self.enrolments[client], self.facts[client]

    def dismiss(self, client: int, reason: str) -> None:
        """Take a client off the list, and not back."""
        self._dismissed.add(client)
        if client in self.enrolments:
            self.refuse(client, reason)

    def take_refusals(self) -> list[Record]:
        """Nodes that were refused since the last call, and why: for the run's records."""
        taken, self._refused = self._refused, []
        return taken

    def missing(self) -> Iterable[int]:
        """Members that have not come."""
        return sorted(set(self._members.values()) - self.enrolments.keys())

    def _note(self, node: int, reason: str) -> None:
        _LOG.warning("node %d is not enrolled: %s", node, reason)
        self.last_refusal = reason
        self._refused.append({"node": node, "refused": reason, "time": time.time()})

    def _enrol(self, reply: Reply, statement: Statement) -> None:
        parts = unpack(reply.content, needed=_PARTS)
        name = check_proof(parts["proof"], statement, authority=self._authority)
        client = self._members.get(name)
        if client is None:
            raise Rejected(f"{name} is not registered with run {self._run}", code="not-a-member")
        if client in self._dismissed:
            raise Rejected(f"{name} was dismissed: sums match their receipts only without it")
        enrolment, facts = Enrolment.from_bytes(parts["enrolment"]), facts_from_bytes(parts["facts"], "enrol")
        for other in [node for node, known in self._clients.items() if known == client]:
            del self._clients[other]  # it came back as another node
        self._clients[reply.node] = client
        self.enrolments[client], self.facts[client] = enrolment, facts
        sent = sum(map(len, parts.values()))
        self.bandwidths.setdefault(client, sent / 1e6 / max(reply.seconds, _LEAST_SECONDS))
        _LOG.info("client %d (%s) is there, as node %d", client, name, reply.node)
