"""A cluster's round while it is collected: proposals, uploads as they arrive, and what is written down about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sensecrypt.coordinator.checkpoint import ClosedSum
from sensecrypt.coordinator.coordination import Coordination
from sensecrypt.coordinator.ports import Observer, Reply
from sensecrypt.coordinator.sums import PartedSum
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.policies.situation import blocks_of
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.messages import Proposal
from sensecrypt.protocol.requests import facts_from_bytes, require_parts
from sensecrypt.protocol.round import Round
from sensecrypt.records import ClientRecord, Facts, ServerRecord, grown
from sensecrypt.worktime import Cost, work_seconds


@dataclass
class RoundRecords:
    """What is written down about a round while it goes on.

    Attributes:
        clients: the record of every member.
        server: of aggregator and key server.
        left_out: why an upload did not count, by client.
    """

    clients: dict[int, ClientRecord]
    server: ServerRecord
    left_out: dict[int, str] = field(default_factory=dict)

    def add(self, client: int, more: Facts | Mapping[str, Any]) -> None:
        """More about a client."""
        self.clients[client] = grown(self.clients[client], more)

    def spend(self, seconds: float) -> None:
        """The aggregator worked for so long."""
        self.server = grown(self.server, {"aggregate_seconds": max(0.0, seconds)})

    def records(self) -> list[ClientRecord | ServerRecord]:
        """One per client, ascending, and one of the servers."""
        told = [
            ClientRecord(round=own.round, cluster=own.cluster, client=client, left_out=self.left_out.get(client))
            if client in self.left_out
            else own
            for client, own in sorted(self.clients.items())
        ]
        return [*told, self.server]


def under_covered_blocks(total: RoundSum, least: int) -> int:
    """Blocks that somebody encrypted but too few: with the others' help, subtraction may read them."""
    encrypting = total.encrypted_contributors
    return int(np.count_nonzero((encrypting > 0) & (encrypting < min(least, len(total.contributors)))))


def with_cost(server: ServerRecord, cost: Cost, *, multiplied: bool) -> ServerRecord:
    """The record with the aggregator's cryptography; products only where it multiplies."""
    seconds, blocks = cost.seconds, cost.blocks
    more: dict[str, float] = {"add_seconds": seconds.get("add", 0.0), "added_blocks": blocks.get("add", 0)}
    if multiplied:
        more |= {"multiply_seconds": seconds.get("multiply", 0.0), "multiplied_blocks": blocks.get("multiply", 0)}
        more |= {"add_plain_seconds": seconds.get("add_plain", 0.0), "plain_added_blocks": blocks.get("add_plain", 0)}
    return grown(server, more)


_SPOILT = "the sum matches the tags only without some clients, this one among them"
_ALONE = "not all of its group arrived, and sums are of whole groups"


class KnownTags:
    """Whose tags of one round the key service has: asked again only for a client that was not among them."""

    def __init__(self, round_: Round, ask: Callable[[Round], list[int]]) -> None:
        """Nobody is known yet."""
        self._round, self._ask = round_, ask
        self._known: set[int] = set()

    def require(self, client: int) -> None:
        """Raise `Rejected` unless the key service has this client's tag."""
        if client not in self._known:
            self._known = set(self._ask(self._round))
        if client not in self._known:
            raise Rejected("an upload for which the key service has no tag")


@dataclass(eq=False)
class ClusterRound:
    """A cluster's round while its uploads arrive.

    Attributes:
        round: the round.
        invited: the members that are asked to train.
        total: the sum.
        after: the round of sensitivities that goes with it, if a new order is due.
        sensitivities: their sum.
        notes: what is written down.
        tags: asks the key service whose tags of a round it has.
        observer: sees what arrives.
        evaluated: the accuracy, at each client, of the model that it started from.
    """

    round: Round
    invited: set[int]
    total: PartedSum
    after: Round | None
    sensitivities: PartedSum | None
    notes: RoundRecords
    tags: Callable[[Round], list[int]]
    observer: Observer
    evaluated: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """No tags are known yet."""
        self._tagged = KnownTags(self.round, self.tags)
        self._tagged_after = None if self.after is None else KnownTags(self.after, self.tags)

    def take(self, reply: Reply) -> None:
        """Add what a client sent; what cannot be used is noted, and the sum stays as it was."""
        client, start, before = reply.client, work_seconds(), self.total.cost.total_seconds
        try:
            parts = require_parts(reply.content, needed={"upload", "facts"}, allowed={"sensitivity"})
            facts = facts_from_bytes(parts["facts"], "train")
            self._tagged.require(client)
            self.total.add(parts["upload"], sender=client)
            self.observer.arrived(self.round, client, parts["upload"])
            if facts.accuracy is not None:
                self.evaluated[client] = facts.accuracy
            first = self.notes.clients[client].propose_bytes or 0
            self.notes.add(client, replace(facts, accuracy=None, bytes_up=(facts.bytes_up or 0) + first))
            if self.sensitivities is not None and self._tagged_after is not None and "sensitivity" in parts:
                self._tagged_after.require(client)
                self.sensitivities.add(parts["sensitivity"], sender=client)
        except Rejected as error:
            if client not in self.total.arrived:
                self.notes.left_out[client] = str(error)
        self.notes.spend(work_seconds() - start - (self.total.cost.total_seconds - before))

    def close(self, min_contributors: int, *, without: int | None = None) -> ClosedSum:
        """Close the sums, all or all but one part."""
        start = work_seconds()
        total = self.total.total(without=without)
        aggregate = total.close()
        model, sensitivity = aggregate.to_bytes(self.round), None
        cost = self.total.cost_with(total)
        if self.after is not None and self.sensitivities is not None:
            gains = self.sensitivities.total(without=without)
            sensitivity = gains.close().to_bytes(self.after) if gains.contributors else None
        took = max(0.0, work_seconds() - start - total.cost.total_seconds)
        server = replace(
            with_cost(self.notes.server, cost, multiplied=self.round.factors is not None),
            aggregate_seconds=(self.notes.server.aggregate_seconds or 0.0) + took,
            union_share=aggregate.mask.share,
            under_covered_blocks=under_covered_blocks(total, min_contributors),
        )
        alone = dict.fromkeys(self.total.arrived - set(self.total.contributors), _ALONE)
        spoilt = dict.fromkeys(set(self.total.contributors) - set(total.contributors), _SPOILT)
        notes = RoundRecords(self.notes.clients, server, self.notes.left_out | alone | spoilt)
        where, members = (self.round.cluster, self.round.number, self.round.attempt), sorted(self.round.weights)
        return ClosedSum(*where, model, sensitivity, notes.records(), members)


Requests = dict[int, dict[str, bytes]]


def agree_on_masks(run: Coordination, asked: Mapping[int, ClusterRound], requests: Requests) -> Requests:
    """The requests to those who proposed, each with what their cluster agreed on.

    Args:
        run: the run.
        asked: each client's round.
        requests: the assignments of both exchanges.
    """
    agree = run.policy.agree
    if agree is None:
        raise SenseCryptError(f"policy {run.config.selection.policy} has proposals and no agreement")
    proposals: dict[int, Proposal] = {}
    for reply in run.transport.ask("propose", requests, seconds=run.patience.deadline):
        each = asked[reply.client]
        try:
            message = require_parts(reply.content, needed={"proposal"})["proposal"]
            proposal, limit = Proposal.from_bytes(message, each.round), _limit(run, each)
            if proposal.client != reply.client:
                raise Rejected(f"client {reply.client} sent a proposal of client {proposal.client}")
            if proposal.blocks.size > limit:
                raise Rejected(f"client {reply.client} proposes {proposal.blocks.size:,} blocks, {limit:,} are allowed")
            proposals[reply.client] = proposal
            each.notes.add(reply.client, {"propose_bytes": len(message)})
        except Rejected as error:
            each.notes.left_out[reply.client] = str(error)
    agreed: Requests = {}
    for each in set(asked.values()):
        own = [client for client in sorted(proposals) if asked[client] is each]
        if not own:
            continue
        start = work_seconds()
        flags = agree([proposals[client].blocks for client in own], each.round.blocks, _limit(run, each))
        each.notes.spend(work_seconds() - start)
        message = np.packbits(flags).tobytes()
        for client in own:
            each.notes.add(client, {"bytes_down": len(message)})
            agreed[client] = {**requests[client], "agreed": message}
    return agreed


def _limit(run: Coordination, collecting: ClusterRound) -> int:
    return blocks_of(run.config.selection.ratio, collecting.round.blocks, collecting.round.block)
