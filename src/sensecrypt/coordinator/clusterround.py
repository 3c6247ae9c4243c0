"""A cluster's round while its messages arrive: proposals, uploads, and their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sensecrypt.coordinator.checkpoint import ClosedSum
from sensecrypt.coordinator.coordination import Coordination
from sensecrypt.coordinator.ports import Observer, Reply
from sensecrypt.coordinator.sums import PartedSum
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.policies.situation import blocks_of
from sensecrypt.protocol.messages import Proposal
from sensecrypt.protocol.requests import facts_from_bytes, require_parts
from sensecrypt.records import ClientRecord, ClusterRecords, ServerRecord, grown
from sensecrypt.worktime import Cost, work_seconds

_EXCLUDED = "the sum matches the tags only without some clients, including this one"
_ALONE = "its group is incomplete, and sums are of whole groups"


def with_cost(server: ServerRecord, cost: Cost, seconds: float, *, multiplied: bool) -> ServerRecord:
    """Return the record with the cost of the aggregator's cryptography and `seconds` of other work added.

    Args:
        server: the record.
        cost: the cost of cryptography.
        seconds: seconds of other work.
        multiplied: whether the aggregator multiplies; else the record has no fields of products.
    """
    spent, blocks = cost.seconds, cost.blocks
    more: dict[str, float] = {"aggregate_seconds": seconds}
    more |= {"add_seconds": spent.get("add", 0.0), "added_blocks": blocks.get("add", 0)}
    if multiplied:
        more |= {"multiply_seconds": spent.get("multiply", 0.0), "multiplied_blocks": blocks.get("multiply", 0)}
        more |= {"add_plain_seconds": spent.get("add_plain", 0.0), "plain_added_blocks": blocks.get("add_plain", 0)}
    return grown(server, more)


@dataclass(eq=False)
class ClusterRound:
    """A cluster's round while its uploads arrive.

    Attributes:
        invited: the members that are asked to train.
        total: the sum of their models or updates.
        sensitivities: the sum of their sensitivities, if a new order is due.
        records: the records of all members and of the servers.
        observer: is called with every upload that is added.
        left_out: why an upload does not count, by client.
        evaluated: the accuracy of the start model, as reported by each client.
    """

    invited: set[int]
    total: PartedSum
    sensitivities: PartedSum | None
    records: ClusterRecords
    observer: Observer
    left_out: dict[int, str] = field(default_factory=dict)
    evaluated: dict[int, float] = field(default_factory=dict)

    def take(self, reply: Reply) -> None:
        """Add a client's upload; if it is invalid, record the reason and leave the sum unchanged."""
        client, records = reply.client, self.records
        start, before = work_seconds(), self.total.cost.total_seconds
        try:
            parts = require_parts(reply.content, needed={"upload", "facts"}, allowed={"sensitivity"})
            facts = facts_from_bytes(parts["facts"], "train")
            self.total.add(parts["upload"], sender=client)
            self.observer.arrived(self.total.round, client, parts["upload"])
            if facts.accuracy is not None:
                self.evaluated[client] = facts.accuracy
            sent = (facts.bytes_up or 0) + (records.clients[client].propose_bytes or 0)
            records.clients[client] = grown(records.clients[client], replace(facts, accuracy=None, bytes_up=sent))
            if self.sensitivities is not None and "sensitivity" in parts:
                self.sensitivities.add(parts["sensitivity"], sender=client)
        except Rejected as error:
            if client not in self.total.arrived:
                self.left_out[client] = str(error)
        seconds = work_seconds() - start - (self.total.cost.total_seconds - before)
        records.server = grown(records.server, {"aggregate_seconds": max(0.0, seconds)})

    def close(self, min_contributors: int, *, without: int | None = None) -> ClosedSum:
        """Close the sums of all parts, or of all but one, and return them."""
        round_, cost, server = self.total.round, self.total.cost, self.records.server
        start, before = work_seconds(), cost.total_seconds
        total = self.total.total(without=without)
        aggregate = total.close()
        model, sensitivity = aggregate.to_bytes(round_), None
        if self.sensitivities is not None:
            gains = self.sensitivities.total(without=without)
            sensitivity = gains.close().to_bytes(self.sensitivities.round) if gains.contributors else None
        seconds = max(0.0, work_seconds() - start - (cost.total_seconds - before))
        encrypting, least = total.encrypted_contributors, min(min_contributors, len(total.contributors))
        server = replace(
            with_cost(server, cost, seconds, multiplied=round_.factors is not None),
            union_share=aggregate.mask.share,
            under_covered_blocks=int(np.count_nonzero((encrypting > 0) & (encrypting < least))),
        )
        reasons = dict(self.left_out)
        reasons |= dict.fromkeys(self.total.arrived - set(self.total.contributors), _ALONE)
        reasons |= dict.fromkeys(set(self.total.contributors) - set(total.contributors), _EXCLUDED)
        clients = dict(sorted(self.records.clients.items()))
        for client, reason in reasons.items():
            clients[client] = ClientRecord(round=round_.number, cluster=round_.cluster, client=client, left_out=reason)
        where = (round_.cluster, round_.number, round_.attempt)
        return ClosedSum(*where, model, sensitivity, ClusterRecords(server, clients), sorted(round_.weights))


Requests = dict[int, dict[str, bytes]]


def agree_on_masks(run: Coordination, asked: Mapping[int, ClusterRound], requests: Requests) -> Requests:
    """Collect proposals, and return the requests to the clients that proposed, with their cluster's agreed mask.

    Args:
        run: the run.
        asked: each client's round.
        requests: the assignments, for both exchanges.
    """
    agree, ratio = run.config.policy.agree, run.config.selection.ratio
    if agree is None:
        raise SenseCryptError(f"policy {run.config.selection.policy} has proposals but no agreement")
    proposals: dict[int, Proposal] = {}
    for reply in run.transport.ask("propose", requests, seconds=run.patience.deadline):
        client, each = reply.client, asked[reply.client]
        round_, records = each.total.round, each.records
        try:
            message = require_parts(reply.content, needed={"proposal"})["proposal"]
            proposal = Proposal.from_bytes(message, round_)
            limit = blocks_of(ratio, round_.blocks, round_.block)
            if proposal.client != client:
                raise Rejected(f"client {client} sent a proposal of client {proposal.client}")
            if proposal.blocks.size > limit:
                raise Rejected(f"client {client} proposes {proposal.blocks.size:,} blocks, but {limit:,} are allowed")
            proposals[client] = proposal
            records.clients[client] = grown(records.clients[client], {"propose_bytes": len(message)})
        except Rejected as error:
            each.left_out[client] = str(error)
    agreed: Requests = {}
    for each in set(asked.values()):
        own, records = [client for client in sorted(proposals) if asked[client] is each], each.records
        if not own:
            continue
        start, round_ = work_seconds(), each.total.round
        limit = blocks_of(ratio, round_.blocks, round_.block)
        message = np.packbits(agree([proposals[client].blocks for client in own], round_.blocks, limit)).tobytes()
        records.server = grown(records.server, {"aggregate_seconds": max(0.0, work_seconds() - start)})
        for client in own:
            records.clients[client] = grown(records.clients[client], {"bytes_down": len(message)})
            agreed[client] = {**requests[client], "agreed": message}
    return agreed
