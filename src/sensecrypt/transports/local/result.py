"""What came of a run on one machine: its outcome, and the models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import nn

from sensecrypt.models import set_vector
from sensecrypt.runs.outcome import Outcome


@dataclass(frozen=True)
class Result(Outcome):
    """A run that has ended, with what it was for.

    Attributes:
        vectors: the model of each cluster.
        build: makes a fresh model.
    """

    vectors: list[npt.NDArray[np.float32]]
    build: Callable[[], nn.Module]

    def models(self) -> list[nn.Module]:
        """The trained model of each cluster."""
        trained = []
        for vector in self.vectors:
            model = self.build()
            set_vector(model, vector)
            trained.append(model)
        return trained
