"""The result of a run on one machine: its outcome and its models."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from torch import nn

from sensecrypt.errors import InvalidInput
from sensecrypt.models import set_vector
from sensecrypt.records import servers_of
from sensecrypt.runs.outcome import Outcome


@dataclass(frozen=True, repr=False)
class Result(Outcome):
    """The outcome of a run and its trained models.

    Attributes:
        vectors: the vector of each cluster's model.
        build: returns a new model.
    """

    vectors: list[npt.NDArray[np.float32]]
    build: Callable[[], nn.Module]

    def __repr__(self) -> str:
        figures = "  ".join(f"{name} {value:.4g}" for name, value in self._last_figures().items())
        rounds, clients = len({record.round for record in self.records}), len(self.labels)
        models = len(self.vectors)
        many = f"{models} model{'s' if models != 1 else ''}, {clients} clients, {rounds} rounds"
        return f"<Result: {many}{f', {figures}' if figures else ''}>"

    def model(self, cluster: int | None = None) -> nn.Module:
        """Return the trained model of a cluster, which need not be named if there is only one."""
        model = self.build()
        set_vector(model, self.vectors[self._cluster(cluster)])
        return model

    def models(self) -> list[nn.Module]:
        """Return the trained model of each cluster."""
        return [self.model(cluster) for cluster in range(len(self.vectors))]

    def state_dict(self, cluster: int | None = None) -> dict[str, torch.Tensor]:
        """Return the state of the trained model: all parameters and buffers, in the model's types."""
        return dict(self.model(cluster).state_dict())

    def save(self, path: Path | str, cluster: int | None = None) -> Path:
        """Write the trained model to a safetensors file for `safetensors.torch.load_model`, and return its path."""
        place = Path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            safetensors.torch.save_model(self.model(cluster), str(place))
        except (OSError, safetensors.SafetensorError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInput("path", f"{place} cannot be written ({reason})", "choose another path") from None
        return place

    @property
    def history(self) -> list[dict[str, float]]:
        """The number and the figures of every round on the test data, averaged over clusters."""
        found: dict[int, list[dict[str, float]]] = defaultdict(list)
        for record in servers_of(self.log):
            if record.round >= 0:
                found[record.round].append(record.metrics or {})
        return [{"round": number, **mean_figures(found[number])} for number in sorted(found)]

    @property
    def client_history(self) -> list[dict[str, float]]:
        """The figures of every client and round on the client's own test data, if there are any."""
        return [
            {"round": record.round, "client": record.client, **record.metrics}
            for record in self.played
            if record.metrics
        ]

    def report(self) -> str:
        """Return a summary as text: the encrypted share, the figures of every round, and who was left out and why."""
        summary = self.summary()
        lines = [repr(self), f"{summary['encrypted_share']:.0%} encrypted; {self.why_clusters}"]
        for row in self.history:
            figures = {name: value for name, value in row.items() if name != "round"}
            lines.append(f"round {row['round'] + 1:.0f}: {_shown(figures)}")
        clipped = sum(bool(record.clipped) for record in self.played)
        if clipped:
            many = f"{clipped} of {len(self.played)} updates exceeded the bound and were clipped"
            lines.append(f"{many}; settings={{'clip': …}} raises it, which lets a client move the model further")
        for each in self.excluded:
            lines.append(f"round {each['round'] + 1}: client {each['client']} did not count: {each['reason']}")
        return "\n".join(lines)

    def _cluster(self, cluster: int | None) -> int:
        many = len(self.vectors)
        if cluster is None and many > 1:
            raise InvalidInput("cluster", f"is not given, but there are {many}", f"pass one of 0 … {many - 1}")
        if cluster is not None and not 0 <= cluster < many:
            raise InvalidInput("cluster", f"is {cluster}, but there are {many}", f"pass one of 0 … {many - 1}")
        return cluster or 0

    def _last_figures(self) -> dict[str, float]:
        rows = self.history
        last = {name: value for name, value in rows[-1].items() if name != "round"} if rows else {}
        known = [each for each in self.accuracy if not math.isnan(each)]
        return last or ({"accuracy": float(np.mean(known))} if known else {})


def mean_figures(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


def _shown(figures: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items()) or "no test data"
