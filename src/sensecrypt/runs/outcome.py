"""What came of a run, as far as everybody may know: who is in which cluster, accuracies, and what happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensecrypt.config import RunConfig
from sensecrypt.runs.noise import noise_summary
from sensecrypt.simulation.clock import CostModel, RoundTime, round_times, total_seconds

Record = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A run that has ended.

    Attributes:
        config: of the run.
        labels: the cluster of each client.
        accuracy: of each client; NaN where it was not told, as of a device that is gone.
        log: all records: of clients, of the servers, and of the set-up before the first round.
        wall_seconds: that the run took here.
        why_clusters: in words.
        model_sha256: of each cluster's model.
    """

    config: RunConfig
    labels: list[int]
    accuracy: list[float]
    log: list[Record]
    wall_seconds: float
    why_clusters: str
    model_sha256: list[str]

    @property
    def records(self) -> list[Record]:
        """One for each client and round."""
        return [record for record in self.log if "client" in record and record["round"] >= 0]

    @property
    def played(self) -> list[Record]:
        """The records of those whose upload counted."""
        return [record for record in self.records if "left_out" not in record]

    @property
    def union_share(self) -> float:
        """Mean share of a model that at least one client of its cluster encrypted."""
        return _mean([each for each in self.log if "server" in each and each["round"] >= 0], "union_share")

    @property
    def excluded(self) -> list[Record]:
        """Clients whose training did not count in a round: which, when, and why."""
        reasons = [(each, each.get("left_out", each.get("failure"))) for each in self.records]
        return [{"round": each["round"], "client": each["client"], "reason": why} for each, why in reasons if why]

    def times(self, cost_model: CostModel | None = None) -> list[RoundTime]:
        """The set-up and every round on the device clock."""
        return round_times(
            self.log, self.config.devices, server_cpus=self.config.machines.server_cpus, cost_model=cost_model
        )

    def summary(self) -> dict[str, Any]:
        """The object that `sensecrypt run --json` prints."""
        times = self.times()
        return {
            "model_sha256": self.model_sha256,
            "clusters": self.labels,
            "why_clusters": self.why_clusters,
            "accuracy": _known_mean(self.accuracy),
            "accuracy_per_client": [None if math.isnan(each) else each for each in self.accuracy],
            "encrypted_share": _mean(self.played, "encrypted_share"),
            "coverage": _mean(self.played, "coverage"),
            "excluded": self.excluded,
            "rounds": 1 + max((record["round"] for record in self.records), default=-1),
            "wall_seconds": self.wall_seconds,
            "device_seconds": total_seconds(times),
            "crypto": self.config.encryption.crypto,
            "sensitivity_noise": noise_summary(self.config, self.log),
            "bytes_up": sum(record.get("bytes_up", 0) for record in self.log),
            "bytes_down": sum(record.get("bytes_down", 0) for record in self.log),
        }


def _known_mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else None


def _mean(records: Sequence[Record], key: str) -> float:
    return float(np.mean([record[key] for record in records])) if records else 0.0
