"""What came of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sensecrypt.config import RunConfig
from sensecrypt.engines.clock import Prices, RoundTime, round_times, total_seconds
from sensecrypt.models import set_vector

Record = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """Models, who is in which cluster, accuracies, and a record of every client and round.

    Attributes:
        config: of the run.
        vectors: the model of each cluster.
        labels: the cluster of each client.
        accuracy: of each client.
        log: all records: of clients, of the servers, and of the set-up before the first round.
        wall_seconds: that the run took here.
        why_clusters: in words.
        build: makes a fresh model.
    """

    config: RunConfig
    vectors: list[npt.NDArray[np.float32]]
    labels: list[int]
    accuracy: list[float]
    log: list[Record]
    wall_seconds: float
    why_clusters: str
    build: Callable[[], nn.Module]

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

    def models(self) -> list[nn.Module]:
        """The trained model of each cluster."""
        trained = []
        for vector in self.vectors:
            model = self.build()
            set_vector(model, vector)
            trained.append(model)
        return trained

    def times(self, prices: Prices | None = None) -> list[RoundTime]:
        """The set-up and every round on the device clock."""
        return round_times(self.log, self.config.devices, server_cpus=self.config.server_cpus, prices=prices)

    def summary(self) -> dict[str, Any]:
        """The object that `sensecrypt run --json` prints."""
        times = self.times()
        return {
            "model_sha256": [hashlib.sha256(vector.tobytes()).hexdigest() for vector in self.vectors],
            "clusters": self.labels,
            "accuracy": float(np.mean(self.accuracy)),
            "accuracy_per_client": self.accuracy,
            "encrypted_share": _mean(self.played, "encrypted_share"),
            "coverage": _mean(self.played, "coverage"),
            "rounds": 1 + max((record["round"] for record in self.records), default=-1),
            "wall_seconds": self.wall_seconds,
            "device_seconds": total_seconds(times),
            "crypto": self.config.crypto,
            "bytes_up": sum(record.get("bytes_up", 0) for record in self.log),
            "bytes_down": sum(record.get("bytes_down", 0) for record in self.log),
        }


def _mean(records: Sequence[Record], key: str) -> float:
    return float(np.mean([record[key] for record in records])) if records else 0.0
