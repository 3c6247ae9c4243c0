"""How far the gradient of a guess is from the one that was seen: what every attack on images makes small.

Zhu et al. (Deep Leakage from Gradients, NeurIPS 2019) take the squared error, Geiping et al. (Inverting Gradients,
NeurIPS 2020) one minus the cosine. Both were written for a gradient seen whole. Where some of it is encrypted there are
two ways to go on, and they are far apart:

zero-fill    takes hidden coordinates for zeros: equations that are wrong, and wrong where the gradient is largest.
mask-aware   leaves them out: fewer equations, all of them right. Which ones are hidden is no secret of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from sensecrypt import checks
from sensecrypt.attacks.observation import Observation

Fill = Literal["zero-fill", "mask-aware"]
FILLS: tuple[Fill, ...] = ("zero-fill", "mask-aware")


@dataclass(frozen=True, eq=False)
class Target:
    """What a guess has to reproduce.

    Attributes:
        model: the network at the client's start; evaluation mode.
        positions: coordinates that count, in the vector of parameters; None: all.
        gradient: the values there.
    """

    model: nn.Module
    positions: torch.Tensor | None
    gradient: torch.Tensor

    @property
    def scale(self) -> float:
        """‖∇‖², or 1 if nothing was seen: errors are told relative to it."""
        return float(self.gradient.square().sum()) or 1.0


def make_target(observation: Observation, fill: Fill, *, dtype: torch.dtype = torch.float64) -> Target:
    """What `observation` lets an attacker match, and in which precision."""
    checks.choice("fill", fill, FILLS)
    model = observation.model().to(dtype)
    if fill == "zero-fill":
        return Target(model, None, torch.from_numpy(observation.zero_filled).to(dtype))
    visible = observation.visible
    positions = torch.from_numpy(visible.nonzero()[0])
    return Target(model, positions, torch.from_numpy(observation.gradient[visible]).to(dtype))


def guess_gradient(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean gradient of a guess at the coordinates that count; differentiable in the guess.

    Args:
        target: whose network and coordinates.
        images: (K, channels, height, width).
        labels: (K,) classes, or (K, classes) probabilities.
    """
    parameters = [parameter for parameter in target.model.parameters() if parameter.requires_grad]
    loss = functional.cross_entropy(target.model(images), labels)
    parts = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    flat = torch.cat([part.reshape(-1) for part in parts])
    return flat if target.positions is None else flat[target.positions]


def squared_error(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """‖∇′ − ∇‖² / ‖∇‖².

    DLG has no denominator; with it, one threshold of the optimiser fits gradients of any size (those of a trained
    model are so small that L-BFGS would take the start for the solution).
    """
    return (guess_gradient(target, images, labels) - target.gradient).square().sum() / target.scale


def cosine_distance(target: Target, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """1 − cos(∇′, ∇): blind to the length, which tells how well the model does rather than what it saw.

    Zeros have no direction: if all that is visible is zero, as behind ReLUs once the rest is hidden, this is 1 for any
    guess, and an attack by it knows nothing. The squared error still uses such equations.
    """
    guess = guess_gradient(target, images, labels)
    lengths: torch.Tensor = torch.linalg.vector_norm(guess) * torch.linalg.vector_norm(target.gradient)
    cosine = torch.dot(guess, target.gradient) / lengths.clamp_min(1e-30)  # 0 where there is nothing to compare
    return cosine.neg() + 1
