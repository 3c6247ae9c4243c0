"""Who is there: which Flower node is which client, proven by the client's certificate, and what each said of itself."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from flwr.serverapp import Grid

from sensecrypt.engines.flower.exchange import Reply, Unanswered, ask
from sensecrypt.engines.flower.messages import Challenge, Enrolment, Invitation, facts_from_bytes
from sensecrypt.engines.flower.proof import Statement, check_proof
from sensecrypt.engines.flower.wire import unpack
from sensecrypt.engines.outcome import Record
from sensecrypt.errors import Rejected, SenseCryptError

_LOG = logging.getLogger("sensecrypt.fleet")
_PARTS = {"enrolment", "facts"}
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
        """Ask every new node which client it is, and those that prove it to enrol; others get a line in the log.

        Only the second message has the seed of the sketches. Each may take as many `seconds`.
        """
        online = set(self._grid.get_node_ids())
        self._asked &= online  # who went and came back is asked again
        new = sorted(online - self._asked)
        nonces = {node: secrets.token_hex(16) for node in new}
        challenges = {node: {"challenge": Challenge(nonces[node]).to_bytes()} for node in new}
        proven: dict[int, str] = {}
        for reply in ask(self._grid, "query.prove", challenges, seconds=seconds):
            with self._refusing(reply.node):
                proven[reply.node] = self._proven(reply, Statement(self._run, reply.node, nonces[reply.node]))
        invitations = {node: {"invitation": Invitation(self._sketch_seed).to_bytes()} for node in proven}
        for reply in ask(self._grid, "query.enrol", invitations, seconds=seconds):
            with self._refusing(reply.node):
                self._enrol(reply, proven[reply.node])
                self._asked.add(reply.node)

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

    @contextlib.contextmanager
    def _refusing(self, node: int) -> Iterator[None]:
        """Note what is wrong with a node's reply; a node that did not reply is asked again."""
        try:
            yield
        except Unanswered as error:
            _LOG.warning("node %d: %s", node, error)
        except SenseCryptError as error:
            self._asked.add(node)
            self._note(node, str(error))

    def _note(self, node: int, reason: str) -> None:
        _LOG.warning("node %d is not enrolled: %s", node, reason)
        self.last_refusal = reason
        self._refused.append({"node": node, "refused": reason, "time": time.time()})

    def _proven(self, reply: Reply, statement: Statement) -> str:
        """The name of the member that a node has proven to be, or `Rejected`."""
        proof = unpack(reply.content, needed={"proof"})["proof"]
        name = check_proof(proof, statement, authority=self._authority)
        if name not in self._members:
            raise Rejected(f"{name} is not registered with run {self._run}", code="not-a-member")
        if self._members[name] in self._dismissed:
            raise Rejected(f"{name} was dismissed: sums match their receipts only without it")
        return name

    def _enrol(self, reply: Reply, name: str) -> None:
        client, parts = self._members[name], unpack(reply.content, needed=_PARTS)
        enrolment, facts = Enrolment.from_bytes(parts["enrolment"]), facts_from_bytes(parts["facts"], "enrol")
        for other in [node for node, known in self._clients.items() if known == client]:
            del self._clients[other]  # it came back as another node
        self._clients[reply.node] = client
        self.enrolments[client], self.facts[client] = enrolment, facts
        sent = sum(map(len, parts.values()))
        self.bandwidths.setdefault(client, sent / 1e6 / max(reply.seconds, _LEAST_SECONDS))
        _LOG.info("client %d (%s) is there, as node %d", client, name, reply.node)
