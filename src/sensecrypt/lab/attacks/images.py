"""Images from gradients: DLG, iDLG and Inverting Gradients, each with every `Fill` for hidden coordinates.

DLG        Zhu et al., Deep Leakage from Gradients, NeurIPS 2019.
iDLG       Zhao et al., iDLG: Improved Deep Leakage from Gradients, 2020.
inverting  Geiping et al., Inverting Gradients: How easy is it to break privacy in federated learning?, NeurIPS 2020.

All treat ĝ as the gradient of one batch of K images. After several local steps this is an approximation that gets worse
with their number. Networks with batch normalisation are in evaluation mode, as the attacker lacks the statistics of the
client's batch. If nothing is visible, an attack returns its random start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, NotApplicable
from sensecrypt.lab.attacks.descent import Variables, best_descent, descend, sign_descent
from sensecrypt.lab.attacks.image_labels import labels_from_counts
from sensecrypt.lab.attacks.matching import Fill, Target, cosine_distance, guess_gradient, make_target, squared_error
from sensecrypt.lab.attacks.observation import Observation
from sensecrypt.lab.attacks.signs import sensitivity
from sensecrypt.models import find_head

Guess = tuple[torch.Tensor, torch.Tensor]  # images, and labels or their probabilities


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The images and labels that an attack found, in no particular order."""

    images: torch.Tensor  # (K, channels, height, width), float32; beyond 0 … 1 where the attack went there
    labels: torch.Tensor  # (K,), int64
    # error of the gradient, without regularisers. A small one does not mean that images are right: with fewer visible
    # coordinates than pixels, many images match.
    loss: float


def dlg(
    observation: Observation, *, fill: Fill, generator: torch.Generator, steps: int = 300, restarts: int = 2
) -> Reconstruction:
    """Find images and soft labels together by the least squared error of the gradient, from a standard normal start.

    Args:
        observation: what the attacker sees.
        fill: how it treats hidden coordinates.
        generator: for the starts.
        steps: of L-BFGS, each up to 20 iterations; fewer if it converges or stalls.
        restarts: further starts, while the error stays large.
    """
    _check_effort(steps, restarts)
    target = make_target(observation, fill)

    def start() -> Variables:
        logits = torch.randn(observation.samples, observation.classes, generator=generator, dtype=torch.float64)
        return [_noise(observation, generator), logits]

    def guess(images: torch.Tensor, logits: torch.Tensor) -> Guess:
        return images, logits.softmax(dim=1)

    (images, logits), value = _least_error(target, guess, start, steps=steps, restarts=restarts)
    return Reconstruction(images.to(torch.float32), logits.argmax(dim=1), value)


def idlg(
    observation: Observation, *, fill: Fill, generator: torch.Generator, steps: int = 300, restarts: int = 2
) -> Reconstruction:
    """Read the labels off the last layer, then find images alone as `dlg` does, with the same arguments.

    If the last layer shows no labels (see `labels_from_head`), this is `dlg`.
    """
    _check_effort(steps, restarts)
    labels = labels_from_head(observation, fill)
    if labels is None:
        return dlg(observation, fill=fill, generator=generator, steps=steps, restarts=restarts)
    known, target = labels, make_target(observation, fill)

    def start() -> Variables:
        return [_noise(observation, generator)]

    (images,), value = _least_error(target, lambda images: (images, known), start, steps=steps, restarts=restarts)
    return Reconstruction(images.to(torch.float32), known, value)


def inverting(
    observation: Observation,
    *,
    labels: Sequence[int] | torch.Tensor,
    fill: Fill,
    generator: torch.Generator,
    steps: int = 4800,
    tv: float = 1e-2,
) -> Reconstruction:
    """Find images of known labels by the least 1 − cos(∇′, ∇) + tv · TV(x), inside the box [0, 1].

    The K labels are from an attack on labels; `steps` are of Adam on the sign of the gradient.
    """
    checks.whole("steps", steps, low=1)
    weight, known = checks.number("tv", tv, low=0), _labels(labels, observation)
    target = make_target(observation, fill, dtype=torch.float32)  # single precision suffices for Adam on signs

    def loss(images: torch.Tensor) -> torch.Tensor:
        return cosine_distance(target, images, known) + weight * total_variation(images)

    images = sign_descent(loss, _noise(observation, generator).to(torch.float32), steps=steps)
    return Reconstruction(images, known, float(cosine_distance(target, images, known).detach()))


def labels_from_head(observation: Observation, fill: Fill) -> torch.Tensor | None:
    """The rule of iDLG: the classes whose rows of the last layer's weight gradient have the least sum.

    Row c of one image is (p_c − 1[c = y]) · e with features e ≥ 0 behind a ReLU or sigmoid: only row y is negative.
    For K images these are the K least rows; a class that occurs twice is found once (iLRG counts).

    With zero-fill, hidden entries are zeros. A mask-aware attacker uses the mean of a row's visible entries, which has
    the row's sign, or its bias gradient p_c − 1[c = y] if the row is hidden. If fewer than K rows are negative, the
    missing ones are rows of which nothing is visible: these are returned if their number fits; else None.

    With `sensitivity`, entries have no signs: the labels are those of the attack on labels by Γ. It needs a bias;
    without one, None.
    """
    count, head = observation.samples, find_head(observation.model(), observation.classes)
    if fill == "sensitivity":
        return labels_from_counts(sensitivity(observation), count) if head.bias.size else None
    if count > observation.classes:
        problem = f"has {count} samples of {observation.classes} classes"
        raise InvalidInput("observation", problem, "take inverting() with the labels of an attack on labels")
    weight = observation.gradient[head.weight]
    if fill == "zero-fill":
        return torch.from_numpy(np.argsort(np.nan_to_num(weight, nan=0.0).sum(axis=1), kind="stable")[:count].copy())
    seen = ~np.isnan(weight)
    score = np.nan_to_num(weight, nan=0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    score[~seen.any(axis=1)] = np.nan
    if head.bias.size:
        score = np.where(np.isnan(score), observation.gradient[head.bias], score)
    least = [int(c) for c in np.argsort(score, kind="stable")[:count] if score[c] < 0]
    missing, dark = count - len(least), np.flatnonzero(np.isnan(score))
    if missing and dark.size != missing:
        return None
    return torch.tensor([*least, *dark[:missing].tolist()], dtype=torch.int64)


def mean_image(observation: Observation) -> torch.Tensor:
    """The best guess without a gradient: the mean of the public images, K times."""
    if observation.public is None:
        raise NotApplicable("observation", "has no public data", "give the adversary images of the same kind")
    return observation.public[0].mean(dim=0).repeat(observation.samples, 1, 1, 1)


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of a pixel to the one below, plus that to the one on the right."""
    down, right = images.diff(dim=2).abs(), images.diff(dim=3).abs()
    return down.mean() + right.mean()


def _least_error(
    target: Target, guess: Callable[..., Guess], start: Callable[[], Variables], *, steps: int, restarts: int
) -> tuple[Variables, float]:
    """The variables whose guess has the least squared error, and that error.

    Numbers of unknown sign are first matched by size. The result gives their signs, and a second descent continues from
    it with all signs known.
    """
    found, value = best_descent(
        lambda *variables: squared_error(target, *guess(*variables)), start, steps=steps, restarts=restarts
    )
    if not target.sizes.numel():
        return found, value
    signed = target.tagged_by(guess_gradient(target, *guess(*found)))
    return descend(lambda *variables: squared_error(signed, *guess(*variables)), found, steps=steps)


def _noise(observation: Observation, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(observation.samples, *observation.image_shape, generator=generator, dtype=torch.float64)


def _labels(labels: Sequence[int] | torch.Tensor, observation: Observation) -> torch.Tensor:
    known = torch.as_tensor(labels, dtype=torch.int64)
    if known.shape != (observation.samples,) or known.min() < 0 or known.max() >= observation.classes:
        fix = f"pass {observation.samples} numbers of 0 … {observation.classes - 1}"
        raise InvalidInput("labels", "are not one class for each image", fix)
    return known


def _check_effort(steps: int, restarts: int) -> None:
    checks.whole("steps", steps, low=1)
    checks.whole("restarts", restarts, low=0)
