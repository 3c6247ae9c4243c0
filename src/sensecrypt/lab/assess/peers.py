"""A synthetic client among others: what policies that agree on something, or rank by what all say, need beside it."""

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
    """Four others, drawn once for a client whatever is judged of it; gradients are computed when first asked for.

    Attributes:
        client: who is judged.
    """

    def __init__(
        self, client: SyntheticClient, images: npt.NDArray[Any], labels: npt.NDArray[np.int64], *, seed: int
    ) -> None:
        """Whom to draw from, and the seed that the draw follows from."""
        self.client = client
        self._images, self._labels, self._seed = images, labels, seed

    @property
    def own(self) -> Gradient:
        """The client's."""
        return self.client.at_before.astype(np.float32)

    @cached_property
    def alike(self) -> list[Gradient]:
        """Of peers that hold the client's classes, as clustering gives them."""
        return self._gradients(self._draw(np.flatnonzero(self.client.counts), "alike"))

    @cached_property
    def others(self) -> list[Gradient]:
        """Of peers that hold as many classes as the client, each its own."""
        return self._gradients(self._anybody)

    @cached_property
    def jacobian(self) -> FloatVector:
        """The mean of everybody's map, the client's and the others': FedML-HE's ranking."""
        model = self.client.observation.model()
        everybody: list[Samples] = [(self.client.inputs, self.client.labels), *self._anybody]
        return np.asarray(np.mean([jacobian_map(model, *each) for each in everybody], axis=0), dtype=np.float64)

    @cached_property
    def _anybody(self) -> list[Samples]:
        return self._draw(None, "others")

    def _gradients(self, samples: list[Samples]) -> list[Gradient]:
        model = self.client.observation.model()
        return [mean_gradient(model, *each) for each in samples]

    def _draw(self, present: IntVector | None, who: str) -> list[Samples]:
        """As many samples each as the client has; None: of classes drawn for each, as many as the client has."""
        rng = derive_rng(self._seed, f"peers {who}")
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
