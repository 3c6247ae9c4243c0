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
class Unplaced:
    """Plain values in the order of their slots, where it is secret which parameter a slot holds.

    Attributes:
        values: the client's, as its fixed-point numbers tell them.
        others: those of others in its cluster who left all of these slots plain, one row each; none: no rows.
        possible: which parameters may be in these slots; what is always encrypted may not.
        step: the distance of two neighbouring fixed-point numbers of the client, 2^−f / p.
        scale: η·S, how far a gradient of 1 moves a value.
    """

    values: FloatVector
    others: npt.NDArray[np.float64]
    possible: BoolVector
    step: float
    scale: float

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        checks.number("step", self.step, low=0.0, open_low=True)
        checks.number("scale", self.scale, low=0.0, open_low=True)
        if self.others.ndim != 2 or self.others.shape[1] != self.values.size:
            problem = f"has shape {self.others.shape} for {self.values.size:,} slots"
            raise InvalidInput("others", problem, "pass one row a client")
        if self.values.size > np.count_nonzero(self.possible):
            problem = f"are {self.values.size:,}, of {np.count_nonzero(self.possible):,} parameters"
            raise InvalidInput("values", problem, "pass one a parameter at most")


@dataclass(frozen=True, eq=False, kw_only=True)
class Observation:
    """One client's round, as seen by whoever holds its upload. Positions are parameters in their natural order.

    Attributes:
        build: makes the network; its architecture is public, its weights are not taken from here.
        before: W^e, the model that the client started from.
        gradient: ĝ = (W^e − W_i) / (η·S), the client's mean gradient as its upload tells it; NaN where it is hidden.
        samples: K, how many samples the client trained on (n_i is in every upload's weight).
        classes: how many there are.
        stale: ĝ as the values exposed last would give it, for coordinates that are hidden now; None: nothing was.
        sensitivity: Γ = |w ⊙ g| in the clear, where clients upload it; else None.
        unplaced: plain values whose positions are secret; None: there are none such.
        mask: which parameters are encrypted, where the adversary knows that though it does not see the others, either;
            None: those that it does not see.
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
    unplaced: Unplaced | None = None
    mask: BoolVector | None = None
    public: Samples | None = None
    image_shape: tuple[int, ...] = (1, 28, 28)

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        checks.whole("samples", self.samples, low=1)
        checks.whole("classes", self.classes, low=2)
        for name in ("gradient", "stale", "sensitivity", "mask"):
            vector = getattr(self, name)
            if vector is not None and vector.shape != self.before.shape:
                problem = f"has shape {vector.shape}, the model {self.before.shape}"
                raise InvalidInput(name, problem, "pass one number a parameter")
        if self.unplaced is not None and self.unplaced.possible.shape != self.before.shape:
            problem = f"is of a model of {self.unplaced.possible.size:,} parameters, not {self.before.size:,}"
            raise InvalidInput("unplaced", problem, "pass one flag a parameter")

    @property
    def visible(self) -> BoolVector:
        """Which coordinates are in sight."""
        return ~np.isnan(self.gradient)

    @property
    def encrypted(self) -> BoolVector:
        """Which coordinates are encrypted, as far as the adversary can tell."""
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
