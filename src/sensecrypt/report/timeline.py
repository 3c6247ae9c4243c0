"""The steps of every client in a round, in device time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sensecrypt.records import Played, clients_of
from sensecrypt.simulation.clock import RoundTime, Steps
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
ALWAYS = ("train", "select", "encrypt", "upload", "wait")  # in the legend even if they took no time


@dataclass(frozen=True)
class Bar:
    """A client's round: seconds per step, in order."""

    client: int
    seconds: dict[str, float]


def bars(time: RoundTime, records: Sequence[Played], devices: Sequence[Device]) -> list[Bar]:
    """The steps of every client whose upload counted.

    Args:
        time: the round on the device clock.
        records: of the round; in methods with two exchanges they have the bytes of the first.
        devices: of the clients in that round.
    """
    sent = {record.client: record for record in clients_of(records)}
    first = {client: record.propose_bytes or 0 for client, record in sent.items()}
    cluster_of = {client: sent[client].cluster if client in sent else 0 for client in time.clients}
    proposals = {
        client: first.get(client, 0) / (devices[client].bandwidth * 1e6) if client in first else 0.0
        for client in time.clients
    }
    arrivals = {client: each.train + each.select + proposals[client] for client, each in time.clients.items()}
    agreed: dict[int, float] = {}  # when all of a cluster have sent their first part
    if any(proposals.values()):
        for client, arrival in arrivals.items():
            agreed[cluster_of[client]] = max(arrival, agreed.get(cluster_of[client], 0.0))
    served = {cluster: span.served - span.arrived for cluster, span in time.clusters.items()}
    return [
        Bar(
            client,
            _bar(
                each,
                proposals[client],
                max(0.0, agreed.get(cluster_of[client], 0.0) - arrivals[client]),
                served.get(cluster_of[client], time.server_seconds),
            ),
        )
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
