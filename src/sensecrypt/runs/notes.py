"""What is written down about a cluster's round while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.costs import Cost
from sensecrypt.records import ClientRecord, Facts, ServerRecord, grown


@dataclass
class Notes:
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
