"""The distance of a guess's gradient from the observed one: attacks on images minimise it.

Zhu et al. (Deep Leakage from Gradients, NeurIPS 2019) take the squared error, Geiping et al. (Inverting Gradients,
NeurIPS 2020) one minus the cosine. Both assume that the whole gradient is visible. If some of it is encrypted, an
attacker has three options, with very different results:

zero-fill    sets hidden coordinates to 0: these equations are wrong, and wrong where the gradient is largest.
mask-aware   leaves them out: fewer equations, all of them right. Most protocols do not hide which ones are hidden.
sensitivity  takes their size from Γ = |w ⊙ g| where clients upload it: |g′| = Γ/|w|, without the sign. To find images
             from a gradient without signs is a problem of phase retrieval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sensecrypt import checks
from sensecrypt.checks import IntVector
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.lab.attacks.signs import magnitudes

Fill = Literal["zero-fill", "mask-aware", "sensitivity"]
FILLS: tuple[Fill, ...] = ("zero-fill", "mask-aware", "sensitivity")

_ROUNDING = 0.1  # δ, times the mean square that is matched; with 0, entries near 0 would dominate


@dataclass(frozen=True, eq=False)
class Target:
    """What a guess must reproduce: values with their sign, and absolute values of others."""

    model: nn.Module  # the network at the client's start; evaluation mode
    positions: torch.Tensor  # in the vector of parameters, those of `gradient` first, then those of `sizes`
    gradient: torch.Tensor  # known values
    sizes: torch.Tensor  # absolute values of others, if sensitivities are in the clear

    @property
    def scale(self) -> float:
        """‖∇‖² of all that is matched, or 1 if that is 0; errors are relative to it."""
        return float(self.gradient.square().sum() + self.sizes.square().sum()) or 1.0

    def parts(self, guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parts of a guess's gradient that correspond to `gradient` and to `sizes`."""
        return guess[: self.gradient.numel()], guess[self.gradient.numel() :]

    def tagged_by(self, guess: torch.Tensor) -> Target:
        """The same target, with the signs of a guess's gradient for `sizes`."""
        signed = self.sizes * self.parts(guess)[1].detach().sign()
        return replace(self, gradient=torch.cat([self.gradient, signed]), sizes=self.sizes[:0])


def make_target(observation: Observation, fill: Fill, *, dtype: torch.dtype = torch.float64) -> Target:
    """The values of `observation` that an attacker can match, in the precision `dtype`."""
    checks.choice("fill", fill, FILLS)
    seen, gradient, unsigned, sizes = _KNOWN[fill](observation)
    return Target(
        observation.model().to(dtype),
        torch.from_numpy(np.concatenate([seen, unsigned])),
        torch.from_numpy(gradient).to(dtype),
        torch.from_numpy(sizes).to(dtype),
    )


def fills_for(observation: Observation) -> tuple[Fill, ...]:
    """The fills that differ here: one if everything is visible; no sizes without sensitivities."""
    if observation.visible.all():
        return ("mask-aware",)
    return FILLS if observation.sensitivity is not None else FILLS[:2]


_Known = tuple[IntVector, FloatVector, IntVector, FloatVector]  # places, values there; places, absolute values there
_NOWHERE, _NOTHING = np.empty(0, dtype=np.int64), np.empty(0)


def _zero_filled(observation: Observation) -> _Known:
    return np.arange(observation.gradient.size), observation.zero_filled, _NOWHERE, _NOTHING


def _in_sight(observation: Observation) -> _Known:
    seen = np.flatnonzero(observation.visible)
    return seen, observation.gradient[seen], _NOWHERE, _NOTHING


def _with_sizes(observation: Observation) -> _Known:
    """Hidden values where w = 0 are left out, as Γ = 0 there."""
    sizes = magnitudes(observation)
    unsigned = np.flatnonzero(~observation.visible & ~np.isnan(sizes))
    return *_in_sight(observation)[:2], unsigned, sizes[unsigned]


_KNOWN: dict[Fill, Callable[[Observation], _Known]] = {
    "zero-fill": _zero_filled,
    "mask-aware": _in_sight,
    "sensitivity": _with_sizes,
}


def guess_gradient(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean gradient of a guess at the target's positions; differentiable in the guess.

    `images` are (K, channels, height, width), `labels` (K,) classes or (K, classes) probabilities.
    """
    parameters = [parameter for parameter in target.model.parameters() if parameter.requires_grad]
    loss = functional.cross_entropy(target.model(images), labels)
    parts = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts])[target.positions]


def squared_error(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """‖∇′ − ∇‖² / ‖∇‖²; where the sign is unknown, (∇′² − m²) / (2·√(m² + δ)) stands for the difference.

    DLG does not divide by ‖∇‖². With it, one threshold of the optimiser fits gradients of any size; those of a trained
    model are so small that L-BFGS would stop at its start. Squares are smooth where a value changes its sign, and
    divided by 2m they are about the difference of the values. (With the difference of smoothed absolute values, two of
    six MNIST images were found; with this, all six.)
    """
    signed, unsigned = target.parts(guess_gradient(target, images, labels))
    square, scale = target.sizes.square(), target.scale
    rounding = _ROUNDING * scale / max(target.positions.numel(), 1)
    by_square = (unsigned.square() - square) / (2 * (square + rounding).sqrt())
    return ((signed - target.gradient).square().sum() + by_square.square().sum()) / scale


def cosine_distance(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """1 − cos(∇′, ∇). It ignores the length of the gradient, which depends more on the loss than on the data.

    Values of unknown sign take the guess's. If all visible values are 0, as behind ReLUs when the rest is hidden, this
    is 1 for any guess. The squared error still uses such values.
    """
    guess = guess_gradient(target, images, labels)
    gradient = target.tagged_by(guess).gradient
    lengths: torch.Tensor = torch.linalg.vector_norm(guess) * torch.linalg.vector_norm(gradient)
    cosine = torch.dot(guess, gradient) / lengths.clamp_min(1e-30)  # 0 where there is nothing to compare
    return cosine.neg() + 1
