"""The outcome of a run: clusters, accuracies, records; and, for a fleet, the clients that took no part."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.config import RunConfig
from sensecrypt.errors import SenseCryptError
from sensecrypt.records import ClientRecord, Evaluation, Played, Record, Refusal, clients_of, only_played, servers_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.runs.noise import noise_summary
from sensecrypt.simulation.clock import CostModel, RoundTime, round_times, total_seconds


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        config: the run's configuration.
        labels: the cluster of each client.
        accuracy: the accuracy of each client; NaN if it was not reported.
        log: all records of clients and servers, including setup.
        wall_seconds: the duration of the run on this machine.
        why_clusters: a description of how the clusters were found.
        model_sha256: the hash of each cluster's model.
        why_profile: the reason for the profile if it was `auto`; else empty.
    """

    config: RunConfig
    labels: list[int]
    accuracy: list[float]
    log: list[Played]
    wall_seconds: float
    why_clusters: str
    model_sha256: list[str]
    why_profile: str

    @property
    def records(self) -> list[ClientRecord]:
        """The records of clients, one per client and round, without setup."""
        return [record for record in clients_of(self.log) if record.round >= 0]

    @property
    def played(self) -> list[ClientRecord]:
        """The records of clients whose upload counted."""
        return [record for record in self.records if record.counts]

    @property
    def union_share(self) -> float:
        """The mean share of a model that at least one client of its cluster encrypted."""
        return _mean([each.union_share for each in servers_of(self.log) if each.round >= 0])

    @property
    def excluded(self) -> list[dict[str, Any]]:
        """The clients whose training did not count, with round and reason."""
        reasons = [(each, each.left_out or each.failure) for each in self.records]
        return [{"round": each.round, "client": each.client, "reason": why} for each, why in reasons if why]

    def times(self, cost_model: CostModel | None = None) -> list[RoundTime]:
        """Return the times of setup and of every round on the device clock."""
        return round_times(
            self.log, self.config.devices, server_cpus=self.config.machines.server_cpus, cost_model=cost_model
        )

    def summary(self) -> dict[str, Any]:
        """Return the object that `sensecrypt run --json` prints."""
        times = self.times()
        return {
            "model_sha256": self.model_sha256,
            "clusters": self.labels,
            "why_clusters": self.why_clusters,
            "accuracy": _known_mean(self.accuracy),
            "accuracy_per_client": [None if math.isnan(each) else each for each in self.accuracy],
            "encrypted_share": _mean([record.encrypted_share for record in self.played]),
            "coverage": _mean([record.coverage for record in self.played]),
            "excluded": self.excluded,
            "rounds": 1 + max((record.round for record in self.records), default=-1),
            "wall_seconds": self.wall_seconds,
            "device_seconds": total_seconds(times),
            "crypto": self.config.encryption.crypto,
            "profile": self.config.encryption.profile,
            "why_profile": self.why_profile,
            "sensitivity_noise": noise_summary(self.config, clients_of(self.log)),
            "bytes_up": sum(record.bytes_up or 0 for record in clients_of(self.log)),
            "bytes_down": sum(record.bytes_down or 0 for record in clients_of(self.log)),
        }


def _known_mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else None


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else 0.0


def write_outcome(folder: RunFolder, labels: list[int], why: str, digests: list[str], seconds: float) -> None:
    """Write the outcome of a finished run."""
    fields = {
        "model_sha256": digests,
        "clusters": labels,
        "why": why,
        "wall_seconds": seconds,
    }
    folder.write("outcome.json", json.dumps(fields).encode())


def read_outcome(path: Path) -> Outcome:
    """Return the outcome in a run's folder; raise if the run failed or is not finished."""
    folder = RunFolder(path)
    try:
        fields = json.loads((path / "outcome.json").read_text())
    except (OSError, ValueError):
        raise SenseCryptError(f"{path} holds no finished run; check the ServerApp's log") from None
    if "error" in fields:
        raise SenseCryptError(str(fields["error"]))
    log = merge_accuracies(folder.records())
    accuracy = [math.nan] * len(fields["clusters"])
    for record in clients_of(log):
        if record.accuracy is not None and not math.isnan(record.accuracy):
            accuracy[record.client] = record.accuracy
    return Outcome(
        config=folder.read_config(),
        labels=fields["clusters"],
        accuracy=accuracy,
        log=log,
        wall_seconds=fields["wall_seconds"],
        why_clusters=fields["why"],
        model_sha256=fields["model_sha256"],
        why_profile=folder.why_profile,
    )


def absences(folder: RunFolder, labels: Sequence[int]) -> list[str]:
    """Return a line about the clients that took no part in a run, and one per reason for which nodes were refused."""
    reasons = dict.fromkeys(each.refused for each in folder.records() if isinstance(each, Refusal))
    clients = [client for client, label in enumerate(labels) if label < 0]
    missing = [f"{_named(clients)} took no part in the run, or not to its end"] if clients else []
    return [*missing, *(f"a node was refused: {reason}" for reason in reasons)]


def _named(clients: Sequence[int]) -> str:
    return f"client{'s' if len(clients) > 1 else ''} {', '.join(map(str, clients))}"


def merge_accuracies(records: list[Record]) -> list[Played]:
    """Return the records in the form of a run on one machine.

    In a fleet, clients report accuracies only when they fetch the model. Each accuracy is added to the record of its
    round. Refusals are left out.
    """
    known = {(each.round, each.evaluated): each.accuracy for each in records if isinstance(each, Evaluation)}
    return [
        replace(record, accuracy=known.get((record.round, record.client), math.nan))
        if isinstance(record, ClientRecord) and record.round >= 0
        else record
        for record in only_played(records)
    ]
