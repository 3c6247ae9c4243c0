"""What every client did in a round, one thing after the other, on the device clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sensecrypt.engines.clock import RoundTime, Steps
from sensecrypt.types import Device

STEPS = {
    "train": "--train",
    "select": "--select",
    "propose": "--upload",
    "wait to agree": "--wait",
    "encrypt": "--encrypt",
    "upload": "--upload",
    "wait": "--wait",
    "server": "--server",
    "download": "--download",
    "decrypt": "--decrypt",
}
ALWAYS = ("train", "select", "encrypt", "upload", "wait")  # drawn even where they took no time


@dataclass(frozen=True)
class Bar:
    """A client's round: seconds of each step, in their order."""

    client: int
    seconds: dict[str, float]


def bars(time: RoundTime, records: Sequence[Mapping[str, Any]], devices: Sequence[Device]) -> list[Bar]:
    """The round of every client whose upload counted.

    Args:
        time: the round on the device clock.
        records: of the round; they tell what part of an upload came first, in methods with two exchanges.
        devices: of the clients in that round.
    """
    first = {record["client"]: record.get("propose_bytes", 0) for record in records if "client" in record}
    proposals = {
        client: first.get(client, 0) / (devices[client].bandwidth * 1e6) if client in first else 0.0
        for client in time.clients
    }
    arrivals = {client: each.train + each.select + proposals[client] for client, each in time.clients.items()}
    agreed = max(arrivals.values(), default=0.0) if any(proposals.values()) else 0.0
    return [
        Bar(client, _bar(each, proposals[client], max(0.0, agreed - arrivals[client]), time.server_seconds))
        for client, each in time.clients.items()
    ]


def _bar(steps: Steps, proposal: float, agreeing: float, server: float) -> dict[str, float]:
    return {
        "train": steps.train,
        "select": steps.select,
        "propose": proposal,
        "wait to agree": agreeing,
        "encrypt": steps.encrypt,
        "upload": steps.upload - proposal,
        "wait": max(0.0, steps.wait - agreeing),
        "server": server,
        "download": steps.download,
        "decrypt": steps.decrypt,
    }
