"""What a run on one machine records besides: accuracies, a map of clients, and on request all that parties know."""

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
        """A cluster's latest model."""
        return model_from(self._initial, self._service.moved(cluster), self._clip)

    def accuracies(self, labels: Sequence[int]) -> list[float]:
        """Each client's accuracy: its cluster's model on test data distributed as its own; NaN without a cluster.

        Where labels are not known of all clients, it is the one on all test data, and NaN without any.
        """
        clusters = {label for label in labels if label >= 0}
        if self._shares is None:
            told = {cluster: self.figures(cluster).get("accuracy", math.nan) for cluster in clusters}
            return [told.get(label, math.nan) for label in labels]
        test, by_class = as_data(self._problem.test).pair, {}
        for cluster in clusters:
            if test is not None:
                by_class[cluster] = np.nan_to_num(accuracy_by_class(self.built(cluster), *test, self._problem.classes))
        return [
            float(share @ by_class[label]) if label in by_class else math.nan
            for share, label in zip(self._shares, labels, strict=True)
        ]

    def built(self, cluster: int) -> nn.Module:
        """A cluster's latest model, as a model."""
        model = self._problem.build()
        set_vector(model, self.model(cluster))
        return model

    def figures(self, cluster: int) -> dict[str, float]:
        """Named figures of a cluster's latest model on the test data; none without such data."""
        if self._problem.test is None:
            return {}
        if cluster not in self._figures:
            self._figures[cluster] = measure(self.built(cluster), as_data(self._problem.test), self._problem.recipe)
        return self._figures[cluster]

    def _own_figures(self, client: int, cluster: int) -> dict[str, float] | None:
        """Named figures of a cluster's latest model on a client's own test data; none without such data."""
        if self._problem.client_tests is None:
            return None
        where = f"client_tests[{client}]"
        return measure(self.built(cluster), self._problem.client_tests[client], self._problem.recipe, where)

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
        """Accuracies go into the records of the round's clients; of a user's own problem, all figures."""
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
    """The share of each class at each client, if labels are there to be counted."""
    if problem.loads or not problem.classes or problem.recipe.evaluate is not None or not problem.recipe.plain:
        return None
    pairs = [as_data(data).pair for data in problem.clients]
    if problem.test is None or as_data(problem.test).pair is None:
        return None
    if any(pair is None or int(pair[1].max()) >= problem.classes for pair in pairs):
        return None
    return [class_shares(pair[1], problem.classes) for pair in pairs if pair is not None]
