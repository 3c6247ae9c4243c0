"""Flower's nodes as clients; each node proves with the client's certificate which client it is."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from flwr.serverapp import Grid

from sensecrypt.coordinator.ports import Reply, Unanswered
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.protocol.requests import Challenge, Parts, require_parts
from sensecrypt.records import Refusal
from sensecrypt.transports.flower.exchange import ask
from sensecrypt.transports.flower.proof import Statement, check_proof

_KINDS = {  # Flower's message types
    "enrol": "query.enrol",
    "rank": "train.rank",
    "propose": "train.propose",
    "train": "train",
    "finish": "query.finish",
}
_LOG = logging.getLogger("sensecrypt.fleet")


class FlowerTransport:
    """Messages to the clients of one run through SuperLink."""

    def __init__(self, grid: Grid, run: str, members: Mapping[str, int], authority: Path) -> None:
        """Start without clients; `members` are the numbers of the run's members by their certificates' names."""
        self._grid, self._run, self._members, self._authority = grid, run, members, authority
        self._clients: dict[int, int] = {}  # by node
        self._proven: set[int] = set()
        self._refused: list[Refusal] = []

    def present(self, *, seconds: float) -> Mapping[int, Hashable]:
        """The clients whose nodes are online; new nodes have to prove which client they are.

        The invitation is a message of its own, after that: it has the seed of the sketches, which is for members only.
        """
        online = set(self._grid.get_node_ids())
        self._proven &= online  # a node that comes back has to prove it again
        new = sorted(online - self._proven)
        nonces = {node: secrets.token_hex(16) for node in new}
        challenges = {node: {"challenge": Challenge(nonces[node]).to_bytes()} for node in new}
        for reply in ask(self._grid, "query.prove", challenges, seconds=seconds):
            with self._refusing(reply.client):
                node = reply.client
                client = self._client(reply, Statement(self._run, node, nonces[node]))
                for other in [each for each, known in self._clients.items() if known == client]:
                    del self._clients[other]  # the client has a new node
                self._clients[node] = client
                self._proven.add(node)
                _LOG.info("client %d is online as node %d", client, node)
        return {client: node for node, client in self._clients.items() if node in online}

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
        """Send each client its request; yield exactly one `Reply` per client."""
        nodes = {client: node for node, client in self._clients.items()}
        by_node = {nodes[client]: parts for client, parts in requests.items() if client in nodes}
        for client in requests.keys() - nodes.keys():
            yield Reply(client, None, "not online")
        for reply in ask(self._grid, _KINDS[kind], by_node, seconds=seconds):
            yield replace(reply, client=self._clients[reply.client])

    def refusals(self) -> list[Refusal]:
        """The nodes that were refused since the last call, with the reasons."""
        taken, self._refused = self._refused, []
        return taken

    @contextlib.contextmanager
    def _refusing(self, node: int) -> Iterator[None]:
        """Record why a node is refused; a node that did not reply is asked again."""
        try:
            yield
        except Unanswered as error:
            _LOG.warning("node %d: %s", node, error)
        except SenseCryptError as error:
            self._proven.add(node)
            _LOG.warning("node %d is not enrolled: %s", node, error)
            self._refused.append(Refusal(node=node, refused=str(error), time=time.time()))

    def _client(self, reply: Reply, statement: Statement) -> int:
        """The member whose certificate the node has, or `Rejected`."""
        proof = require_parts(reply.content, needed={"proof"})["proof"]
        name = check_proof(proof, statement, authority=self._authority)
        if name not in self._members:
            raise Rejected(f"{name} is not registered with run {self._run}", code="not-a-member")
        return self._members[name]
