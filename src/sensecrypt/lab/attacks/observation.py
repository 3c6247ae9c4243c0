"""What an adversary sees of one client in one round: the only input of an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.models import set_vector
from sensecrypt.types import BoolVector

FloatVector = npt.NDArray[np.float64]
Samples = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Unplaced:
    """Plain values by slot, where it is secret which parameter each slot holds."""

    values: FloatVector  # the client's, from its fixed-point numbers
    # one row per other client of its cluster that left all of these slots plain
    others: npt.NDArray[np.float64]
    possible: BoolVector  # parameters that may be in these slots; not those that are always encrypted
    step: float  # of the client's fixed-point numbers, 2^−f / p
    scale: float  # η·S: the change of a value with gradient 1

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        checks.number("step", self.step, low=0.0, open_low=True)
        checks.number("scale", self.scale, low=0.0, open_low=True)
        if self.others.ndim != 2 or self.others.shape[1] != self.values.size:
            problem = f"has shape {self.others.shape} for {self.values.size:,} slots"
            raise InvalidInput("others", problem, "pass one row per client")
        if self.values.size > np.count_nonzero(self.possible):
            problem = f"are {self.values.size:,}, of {np.count_nonzero(self.possible):,} parameters"
            raise InvalidInput("values", problem, "pass at most one per parameter")


@dataclass(frozen=True, eq=False, kw_only=True)
class Observation:
    """One client's round as the receiver of its upload sees it. Positions are parameters in natural order."""

    build: Callable[[], nn.Module]  # makes the network, of which only the architecture is used
    before: npt.NDArray[np.float32]  # W^e, the model that the client started from
    # ĝ = (W^e − W_i) / (η·S), the client's mean gradient by its upload; NaN where hidden
    gradient: FloatVector
    samples: int  # K, how many samples the client trained on (n_i is in every upload's weight)
    classes: int  # their number
    # ĝ by the values that were exposed last; None: nothing was exposed before
    stale: FloatVector | None = None
    sensitivity: FloatVector | None = None  # Γ = |w ⊙ g| in the clear, where clients upload it; else None
    unplaced: Unplaced | None = None  # plain values whose positions are secret, if any
    # which parameters are encrypted, if the adversary knows this and does not see all others; None: those not visible
    mask: BoolVector | None = None
    public: Samples | None = None  # labelled data of the same kind, if available
    image_shape: tuple[int, ...] = (1, 28, 28)  # channels, height, width

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        checks.whole("samples", self.samples, low=1)
        checks.whole("classes", self.classes, low=2)
        for name in ("gradient", "stale", "sensitivity", "mask"):
            vector = getattr(self, name)
            if vector is not None and vector.shape != self.before.shape:
                problem = f"has shape {vector.shape}, the model {self.before.shape}"
                raise InvalidInput(name, problem, "pass one number per parameter")
        if self.unplaced is not None and self.unplaced.possible.shape != self.before.shape:
            problem = f"is of a model of {self.unplaced.possible.size:,} parameters, not {self.before.size:,}"
            raise InvalidInput("unplaced", problem, "pass one flag per parameter")

    @property
    def visible(self) -> BoolVector:
        """Which coordinates are visible."""
        return ~np.isnan(self.gradient)

    @property
    def encrypted(self) -> BoolVector:
        """Which coordinates are encrypted, as far as the adversary knows."""
        return ~self.visible if self.mask is None else self.mask

    @property
    def zero_filled(self) -> FloatVector:
        """The gradient with zeros where it is hidden."""
        return np.nan_to_num(self.gradient, nan=0.0)

    def model(self) -> nn.Module:
        """The network at `before`, in evaluation mode."""
        model = self.build()
        set_vector(model, self.before)
        return model.eval()
