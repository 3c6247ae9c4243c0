"""What is written down about a cluster's round while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.costs import Cost, Operation

Record = dict[str, Any]
_ADDING: dict[Operation, tuple[str, str]] = {"add": ("add_seconds", "added_blocks")}
_MULTIPLYING: dict[Operation, tuple[str, str]] = {
    "multiply": ("multiply_seconds", "multiplied_blocks"),
    "add_plain": ("add_plain_seconds", "plain_added_blocks"),
}


@dataclass
class Notes:
    """What is written down about a round while it goes on.

    Attributes:
        clients: facts of every member.
        left_out: why an upload did not count, by client.
        server: facts of aggregator and key server.
    """

    clients: dict[int, Record]
    server: Record
    left_out: dict[int, str] = field(default_factory=dict)

    def records(self) -> list[Record]:
        """One a client, ascending, and one of the servers."""
        where = {key: self.server[key] for key in ("round", "cluster")}
        told = [
            {**where, "client": client, **({"left_out": self.left_out[client]} if client in self.left_out else facts)}
            for client, facts in sorted(self.clients.items())
        ]
        return [*told, self.server]


def grow(record: Record, more: Record) -> None:
    """Numbers that are there already grow; everything else is set."""
    for key, value in more.items():
        if key in record and isinstance(value, (int, float)) and not isinstance(value, bool):
            record[key] += value
        else:
            record[key] = value


def under_covered_blocks(total: RoundSum, least: int) -> int:
    """Blocks that somebody encrypted but too few: with the others' help, subtraction may read them."""
    encrypting = total.encrypted_contributors
    return int(np.count_nonzero((encrypting > 0) & (encrypting < min(least, len(total.contributors)))))


def server_facts(cost: Cost, *, multiplied: bool) -> Record:
    """What a server's record says about the aggregator's cryptography; products only where it multiplies."""
    return cost.facts(_ADDING | (_MULTIPLYING if multiplied else {}))
