"""The peers of a synthetic client, whose gradients policies with agreed masks or common rankings need."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt.checks import FloatVector, IntVector
from sensecrypt.client.jacobian import jacobian_map
from sensecrypt.client.training import as_tensor
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.observation import Samples
from sensecrypt.lab.attacks.synthetic import SyntheticClient
from sensecrypt.models import mean_gradient
from sensecrypt.rng import derive_rng

PEERS = 4
Gradient = npt.NDArray[np.float32]


class Peers:
    """Four peers, drawn once for a client; their gradients are computed when first needed.

    Attributes:
        client: the attacked client.
        seed: of the draw.
    """

    def __init__(
        self, client: SyntheticClient, images: npt.NDArray[Any], labels: npt.NDArray[np.int64], *, seed: int
    ) -> None:
        """Take the samples to draw from and the seed of the draw."""
        self.client, self.seed = client, seed
        self._images, self._labels = images, labels

    @property
    def own(self) -> Gradient:
        """The client's gradient."""
        return self.client.at_before.astype(np.float32)

    @cached_property
    def alike(self) -> list[Gradient]:
        """Gradients of peers with the client's classes, as in its cluster."""
        return self._gradients(self._draw(np.flatnonzero(self.client.counts), "alike"))

    @cached_property
    def others(self) -> list[Gradient]:
        """Gradients of peers with as many classes as the client, each with its own."""
        return self._gradients(self._unlike)

    @cached_property
    def jacobian(self) -> FloatVector:
        """The mean map of the client and the others: FedML-HE's ranking."""
        model = self.client.observation.model()
        everyone: list[Samples] = [(self.client.inputs, self.client.labels), *self._unlike]
        return np.asarray(np.mean([jacobian_map(model, *each) for each in everyone], axis=0), dtype=np.float64)

    @cached_property
    def _unlike(self) -> list[Samples]:
        return self._draw(None, "others")

    def _gradients(self, samples: list[Samples]) -> list[Gradient]:
        model = self.client.observation.model()
        return [mean_gradient(model, *each) for each in samples]

    def _draw(self, present: IntVector | None, who: str) -> list[Samples]:
        """As many samples per peer as the client has, of these classes; None: of as many classes, drawn per peer."""
        rng = derive_rng(self.seed, f"peers {who}")
        drawn = []
        many = int(np.count_nonzero(self.client.counts))
        for _ in range(PEERS):
            classes = rng.choice(self.client.counts.size, many, replace=False) if present is None else present
            pool = np.flatnonzero(np.isin(self._labels, classes))
            if pool.size == 0:
                raise InvalidInput("labels", "have no sample of these classes", "pass the whole data set")
            chosen = rng.choice(pool, self.client.labels.numel())
            drawn.append((as_tensor(self._images[chosen]), torch.from_numpy(self._labels[chosen])))
        return drawn
