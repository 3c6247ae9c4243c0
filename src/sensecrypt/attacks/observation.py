"""Exactly what an adversary sees of one client in one round: the only input of an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.models import Head as Head
from sensecrypt.models import find_head as find_head
from sensecrypt.models import set_vector
from sensecrypt.types import BoolVector

FloatVector = npt.NDArray[np.float64]
Samples = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Observation:
    """One client's round, as seen by whoever holds its upload. Positions are parameters in their natural order.

    Attributes:
        build: makes the network; its architecture is public, its weights are not taken from here.
        before: W^e, the model that the client started from.
        gradient: ĝ = (W^e − W_i) / (η·S), the client's mean gradient as its upload tells it; NaN where encrypted.
        samples: K, how many samples the client trained on (n_i is in every upload's weight).
        classes: how many there are.
        stale: ĝ as the values exposed last would give it, for coordinates that are hidden now; None: nothing was.
        sensitivity: Γ = |w ⊙ g| in the clear, where clients upload it; else None.
        public: labelled data of the same kind that anybody has; None: no such data.
        image_shape: channels, height, width.
    """

    build: Callable[[], nn.Module]
    before: npt.NDArray[np.float32]
    gradient: FloatVector
    samples: int
    classes: int
    stale: FloatVector | None = None
    sensitivity: FloatVector | None = None
    public: Samples | None = None
    image_shape: tuple[int, int, int] = (1, 28, 28)

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        checks.whole("samples", self.samples, low=1)
        checks.whole("classes", self.classes, low=2)
        for name in ("gradient", "stale", "sensitivity"):
            vector = getattr(self, name)
            if vector is not None and vector.shape != self.before.shape:
                problem = f"has shape {vector.shape}, the model {self.before.shape}"
                raise InvalidInput(name, problem, "pass one number a parameter")

    @property
    def visible(self) -> BoolVector:
        """Which coordinates were not encrypted."""
        return ~np.isnan(self.gradient)

    @property
    def zero_filled(self) -> FloatVector:
        """The gradient with zeros where it is hidden."""
        return np.nan_to_num(self.gradient, nan=0.0)

    def model(self) -> nn.Module:
        """The network at `before`, in evaluation mode."""
        model = self.build()
        set_vector(model, self.before)
        return model.eval()
