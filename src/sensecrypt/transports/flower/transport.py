"""Flower's nodes as clients: which node is which client is proven by the client's certificate."""

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

_KINDS = {  # what each kind of message is to Flower
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
        """To nobody yet; `members` are the numbers of all who may come, by their certificates' names."""
        self._grid, self._run, self._members, self._authority = grid, run, members, authority
        self._clients: dict[int, int] = {}  # by node
        self._proven: set[int] = set()
        self._refused: list[Refusal] = []

    def present(self, *, seconds: float) -> Mapping[int, Hashable]:
        """The clients whose nodes are online; nodes that are new are asked to prove which client they are."""
        online = set(self._grid.get_node_ids())
        self._proven &= online  # who went and came back is asked again
        new = sorted(online - self._proven)
        nonces = {node: secrets.token_hex(16) for node in new}
        challenges = {node: {"challenge": Challenge(nonces[node]).to_bytes()} for node in new}
        for reply in ask(self._grid, "query.prove", challenges, seconds=seconds):
            with self._refusing(reply.client):
                node = reply.client
                client = self._client(reply, Statement(self._run, node, nonces[node]))
                for other in [each for each, known in self._clients.items() if known == client]:
                    del self._clients[other]  # it came back as another node
                self._clients[node] = client
                self._proven.add(node)
                _LOG.info("client %d is there, as node %d", client, node)
        return {client: node for node, client in self._clients.items() if node in online}

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
        """Send each client its request; its reply, or that there is none, exactly once per client."""
        nodes = {client: node for node, client in self._clients.items()}
        by_node = {nodes[client]: parts for client, parts in requests.items() if client in nodes}
        for client in requests.keys() - nodes.keys():
            yield Reply(client, None, "not there")
        for reply in ask(self._grid, _KINDS[kind], by_node, seconds=seconds):
            yield replace(reply, client=self._clients[reply.client])

    def refusals(self) -> list[Refusal]:
        """Nodes that were refused since the last call, and why."""
        taken, self._refused = self._refused, []
        return taken

    @contextlib.contextmanager
    def _refusing(self, node: int) -> Iterator[None]:
        """Note what is wrong with a node's reply; a node that did not reply is asked again."""
        try:
            yield
        except Unanswered as error:
            _LOG.warning("node %d: %s", node, error)
        except SenseCryptError as error:
            self._proven.add(node)
            _LOG.warning("node %d is not enrolled: %s", node, error)
            self._refused.append(Refusal(node=node, refused=str(error), time=time.time()))

    def _client(self, reply: Reply, statement: Statement) -> int:
        """The member that a node has proven to be, or `Rejected`."""
        proof = require_parts(reply.content, needed={"proof"})["proof"]
        name = check_proof(proof, statement, authority=self._authority)
        if name not in self._members:
            raise Rejected(f"{name} is not registered with run {self._run}", code="not-a-member")
        return self._members[name]
