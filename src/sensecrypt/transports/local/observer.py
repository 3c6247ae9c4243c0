"""What a run on one machine records besides: accuracies, a map of clients, and on request all that parties know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.client.context import Vector
from sensecrypt.client.problem import Problem
from sensecrypt.client.training import accuracy_by_class, class_shares
from sensecrypt.config import RunConfig
from sensecrypt.coordinator.ports import Observer
from sensecrypt.keyservice.in_process import InProcessKeyService
from sensecrypt.models import set_vector
from sensecrypt.protocol.envelope import serialize
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import model_from
from sensecrypt.records import SETUP, ClientRecord, Record
from sensecrypt.runs.clientmap import save_map
from sensecrypt.runs.folder import RunFolder


class LocalObserver(Observer):
    """Sees everything, as nobody does in a fleet."""

    def __init__(
        self,
        config: RunConfig,
        problem: Problem,
        folder: RunFolder,
        service: InProcessKeyService,
        initial: Vector,
        clip: float | None,
    ) -> None:
        """Of one run."""
        self._keeps, self._problem, self._folder, self._service = (
            config.machines.messages == "keep",
            problem,
            folder,
            service,
        )
        self._initial, self._clip = initial, clip
        self._shares = [class_shares(labels, problem.classes) for _, labels in problem.clients]
        self._before: dict[int, dict[str, npt.NDArray[Any]]] = {}

    def model(self, cluster: int) -> Vector:
        """A cluster's latest model."""
        return model_from(self._initial, self._service.moved(cluster), self._clip)

    def accuracies(self, labels: Sequence[int]) -> list[float]:
        """Each client's accuracy: its cluster's model on test data distributed as its own; NaN without a cluster."""
        by_class = {}
        for cluster in {label for label in labels if label >= 0}:
            model = self._problem.build()
            set_vector(model, self.model(cluster))
            by_class[cluster] = np.nan_to_num(accuracy_by_class(model, *self._problem.test, self._problem.classes))
        return [
            float(share @ by_class[label]) if label >= 0 else float("nan")
            for share, label in zip(self._shares, labels, strict=True)
        ]

    def described(self, rows: Mapping[int, checks.FloatVector]) -> None:
        """A map of the clients."""
        save_map(self._folder, np.array(list(rows.values())))
        if self._keeps:
            for client, row in rows.items():
                self._folder.keep_message(SETUP, f"description-{client}", serialize("description", {}, {"row": row}))

    def arrived(self, round_: Round, client: int, upload: bytes) -> None:
        """What the aggregator has of a client; and, once per round, what the cluster's members know before it."""
        if not self._keeps:
            return
        self._folder.keep_message(round_.number, f"upload-{client}", upload)
        if round_.cluster not in self._before:
            ranking = self._service.ranking(round_.cluster) if self._service.slot_order else None
            order = {} if ranking is None else {"order": ranking.order}
            self._before[round_.cluster] = {**self._known(round_.cluster), **order}

    def released(self, round_: Round, aggregate: bytes) -> None:
        """What the aggregator makes, what members of the cluster know, and what they receive."""
        if not self._keeps:
            return
        number, cluster, keep = round_.number, round_.cluster, self._folder.keep_message
        keep(number, f"aggregate-{cluster}", aggregate)
        keep(number, f"members-{cluster}", serialize("members", {}, self._before.pop(cluster)))
        keep(number, f"released-{cluster}", serialize("released", {}, self._known(cluster)))

    def _known(self, cluster: int) -> dict[str, npt.NDArray[Any]]:
        """What members of a cluster know of its model."""
        moved = self._service.moved(cluster)
        return {"model": self.model(cluster), "moved": np.zeros_like(self._initial) if moved is None else moved}

    def end_of_round(self, number: int, labels: Sequence[int], records: list[Record]) -> None:
        """Accuracies go into the records of the round's clients."""
        if number == SETUP:
            return
        accuracies = self.accuracies(labels)
        for place, record in enumerate(records):
            if isinstance(record, ClientRecord):
                records[place] = replace(record, accuracy=accuracies[record.client])
