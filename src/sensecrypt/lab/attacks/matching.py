"""How far the gradient of a guess is from the one that was seen: what every attack on images makes small.

Zhu et al. (Deep Leakage from Gradients, NeurIPS 2019) take the squared error, Geiping et al. (Inverting Gradients,
NeurIPS 2020) one minus the cosine. Both were written for a gradient seen whole. Where some of it is encrypted there are
three ways to go on, and they are far apart:

zero-fill    takes hidden coordinates for zeros: equations that are wrong, and wrong where the gradient is largest.
mask-aware   leaves them out: fewer equations, all of them right. Which ones are hidden is no secret of the protocol.
sensitivity  takes their size from Γ = |w ⊙ g|, where clients upload that: |g′| = Γ/|w|, right but for the sign. Images
             from a gradient without signs are a problem of phase retrieval.
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

_ROUNDING = 0.1  # δ in means of the squares that are matched; with 0, entries near 0 would outweigh all others


@dataclass(frozen=True, eq=False)
class Target:
    """What a guess has to reproduce: numbers of known sign, and sizes of numbers whose sign is not known.

    Attributes:
        model: the network at the client's start; evaluation mode.
        positions: in the vector of parameters, those of `gradient` first, then those of `sizes`.
        gradient: the values that are known.
        sizes: the absolute values of others; none, unless sensitivities are in the clear.
    """

    model: nn.Module
    positions: torch.Tensor
    gradient: torch.Tensor
    sizes: torch.Tensor

    @property
    def scale(self) -> float:
        """‖∇‖² of all that is matched, or 1 if that is nothing: errors are told relative to it."""
        return float(self.gradient.square().sum() + self.sizes.square().sum()) or 1.0

    def parts(self, guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A guess's numbers beside `gradient`, and those beside `sizes`."""
        return guess[: self.gradient.numel()], guess[self.gradient.numel() :]

    def tagged_by(self, guess: torch.Tensor) -> Target:
        """The same with the signs of a guess's gradient, so that every number has one."""
        signed = self.sizes * self.parts(guess)[1].detach().sign()
        return replace(self, gradient=torch.cat([self.gradient, signed]), sizes=self.sizes[:0])


def make_target(observation: Observation, fill: Fill, *, dtype: torch.dtype = torch.float64) -> Target:
    """What `observation` lets an attacker match, and in which precision."""
    checks.choice("fill", fill, FILLS)
    seen, gradient, unsigned, sizes = _KNOWN[fill](observation)
    return Target(
        observation.model().to(dtype),
        torch.from_numpy(np.concatenate([seen, unsigned])),
        torch.from_numpy(gradient).to(dtype),
        torch.from_numpy(sizes).to(dtype),
    )


def fills_for(observation: Observation) -> tuple[Fill, ...]:
    """The ways that differ here: only one with all in sight, and no sizes without sensitivities."""
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
    """Where w = 0, Γ tells nothing: what is hidden there stays out."""
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

    Args:
        target: whose network and positions.
        images: (K, channels, height, width).
        labels: (K,) classes, or (K, classes) probabilities.
    """
    parameters = [parameter for parameter in target.model.parameters() if parameter.requires_grad]
    loss = functional.cross_entropy(target.model(images), labels)
    parts = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts])[target.positions]


def squared_error(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """‖∇′ − ∇‖² / ‖∇‖², where of numbers without sign the squares are compared: (∇′² − m²) / (2·√(m² + δ)).

    DLG has no denominator; with it, one threshold of the optimiser fits gradients of any size (those of a trained
    model are so small that L-BFGS would take the start for the solution). Squares are smooth where a number changes
    its sign, and over 2m they differ as the numbers themselves do, once these are near. (The difference of the
    absolute values, rounded off alike, found two of six MNIST images; this found all six.)
    """
    signed, unsigned = target.parts(guess_gradient(target, images, labels))
    square, scale = target.sizes.square(), target.scale
    rounding = _ROUNDING * scale / max(target.positions.numel(), 1)
    by_square = (unsigned.square() - square) / (2 * (square + rounding).sqrt())
    return ((signed - target.gradient).square().sum() + by_square.square().sum()) / scale


def cosine_distance(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """1 − cos(∇′, ∇): blind to the length, which tells how well the model does rather than what it saw.

    Numbers without sign have the guess's. Zeros have no direction: if all that is visible is zero, as behind ReLUs once
    the rest is hidden, this is 1 for any guess, and an attack by it knows nothing. The squared error still uses such
    equations.
    """
    guess = guess_gradient(target, images, labels)
    gradient = target.tagged_by(guess).gradient
    lengths: torch.Tensor = torch.linalg.vector_norm(guess) * torch.linalg.vector_norm(gradient)
    cosine = torch.dot(guess, gradient) / lengths.clamp_min(1e-30)  # 0 where there is nothing to compare
    return cosine.neg() + 1
