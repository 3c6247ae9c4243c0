"""The observer of a run on one machine: records accuracies, a map of clients, and on request all messages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sensecrypt import checks
from sensecrypt.client.context import Vector
from sensecrypt.client.data import as_data
from sensecrypt.client.problem import Problem
from sensecrypt.client.training import accuracy_by_class, class_shares, measure
from sensecrypt.config import RunConfig
from sensecrypt.coordinator.ports import Observer
from sensecrypt.keyservice.in_process import InProcessKeyService
from sensecrypt.models import set_vector
from sensecrypt.protocol.envelope import serialize
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import model_from
from sensecrypt.records import SETUP, ClientRecord, Record, ServerRecord
from sensecrypt.runs.clientmap import save_map
from sensecrypt.runs.folder import RunFolder


class LocalObserver(Observer):
    """Records what passes the coordinator; it sees all models and messages, unlike any participant of a fleet."""

    def __init__(
        self,
        config: RunConfig,
        problem: Problem,
        folder: RunFolder,
        service: InProcessKeyService,
        initial: Vector,
        clip: float | None,
    ) -> None:
        """Observe one run."""
        self._own = config.problem.dataset == "own"
        self._keeps, self._problem, self._folder, self._service = (
            config.machines.messages == "keep",
            problem,
            folder,
            service,
        )
        self._initial, self._clip = initial, clip
        self._shares = _label_shares(problem)
        self._figures: dict[int, dict[str, float]] = {}
        self._before: dict[int, dict[str, npt.NDArray[Any]]] = {}

    def model(self, cluster: int) -> Vector:
        """Return the vector of a cluster's latest model."""
        return model_from(self._initial, self._service.moved(cluster), self._clip)

    def accuracies(self, labels: Sequence[int]) -> list[float]:
        """Return each client's accuracy: of its cluster's model on test data, weighted to the client's labels.

        If labels are not known for all clients, it is the accuracy on all test data. It is NaN for a client without a
        cluster, and without test data.
        """
        clusters = {label for label in labels if label >= 0}
        if self._shares is None:
            known = {cluster: self.figures(cluster).get("accuracy", math.nan) for cluster in clusters}
            return [known.get(label, math.nan) for label in labels]
        test, by_class = as_data(self._problem.test).pair, {}
        for cluster in clusters:
            if test is not None:
                by_class[cluster] = np.nan_to_num(accuracy_by_class(self.built(cluster), *test, self._problem.classes))
        return [
            float(share @ by_class[label]) if label in by_class else math.nan
            for share, label in zip(self._shares, labels, strict=True)
        ]

    def built(self, cluster: int) -> nn.Module:
        """Return a cluster's latest model."""
        model = self._problem.build()
        set_vector(model, self.model(cluster))
        return model

    def figures(self, cluster: int) -> dict[str, float]:
        """Return figures of a cluster's latest model on the test data; empty without test data."""
        if self._problem.test is None:
            return {}
        if cluster not in self._figures:
            self._figures[cluster] = measure(self.built(cluster), as_data(self._problem.test), self._problem.recipe)
        return self._figures[cluster]

    def _own_figures(self, client: int, cluster: int) -> dict[str, float] | None:
        """Return figures of a cluster's latest model on a client's own test data; None without such data."""
        if self._problem.client_tests is None:
            return None
        where = f"client_tests[{client}]"
        return measure(self.built(cluster), self._problem.client_tests[client], self._problem.recipe, where)

    def described(self, rows: Mapping[int, checks.FloatVector]) -> None:
        """Save a map of the clients and, on request, their vectors."""
        save_map(self._folder, np.array(list(rows.values())))
        if self._keeps:
            for client, row in rows.items():
                self._folder.keep_message(SETUP, f"description-{client}", serialize("description", {}, {"row": row}))

    def arrived(self, round_: Round, client: int, upload: bytes) -> None:
        """Save an upload and, once per round, what the cluster's members know before it."""
        if not self._keeps:
            return
        self._folder.keep_message(round_.number, f"upload-{client}", upload)
        if round_.cluster not in self._before:
            ranking = self._service.ranking(round_.cluster) if self._service.slot_order else None
            order = {} if ranking is None else {"order": ranking.order}
            self._before[round_.cluster] = {**self._known(round_.cluster), **order}

    def released(self, round_: Round, aggregate: bytes) -> None:
        """Save the aggregate, what members of the cluster knew before, and what they receive."""
        if not self._keeps:
            return
        number, cluster, keep = round_.number, round_.cluster, self._folder.keep_message
        keep(number, f"aggregate-{cluster}", aggregate)
        keep(number, f"members-{cluster}", serialize("members", {}, self._before.pop(cluster)))
        keep(number, f"released-{cluster}", serialize("released", {}, self._known(cluster)))

    def _known(self, cluster: int) -> dict[str, npt.NDArray[Any]]:
        """Return what members of a cluster know about its model."""
        moved = self._service.moved(cluster)
        return {"model": self.model(cluster), "moved": np.zeros_like(self._initial) if moved is None else moved}

    def end_of_round(self, number: int, labels: Sequence[int], records: list[Record]) -> None:
        """Add accuracies to the clients' records and, for a user's own problem, all figures."""
        if number == SETUP:
            return
        self._figures = {}
        accuracies = self.accuracies(labels)
        for place, record in enumerate(records):
            if isinstance(record, ClientRecord):
                own = self._own_figures(record.client, record.cluster) if self._own and record.counts else None
                records[place] = replace(record, accuracy=accuracies[record.client], metrics=own)
            elif isinstance(record, ServerRecord) and self._own:
                records[place] = replace(record, metrics=self.figures(record.cluster))


def _label_shares(problem: Problem) -> list[npt.NDArray[np.float64]] | None:
    """Return the share of each class for each client; None: labels are not known."""
    if problem.loads or not problem.classes or problem.recipe.evaluate is not None or not problem.recipe.plain:
        return None
    pairs = [as_data(data).pair for data in problem.clients]
    if problem.test is None or as_data(problem.test).pair is None:
        return None
    if any(pair is None or int(pair[1].max()) >= problem.classes for pair in pairs):
        return None
    return [class_shares(pair[1], problem.classes) for pair in pairs if pair is not None]
