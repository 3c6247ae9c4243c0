"""Clients whose data is known, to measure attacks with: what an adversary sees of them, and apart from it the truth.

A client has K samples and trains on them in every round. All drawing follows from the seed. Networks are in evaluation
mode throughout, so that batch normalisation neither sees nor leaks batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.algo.ordering import descending_order
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.checks import IntVector
from sensecrypt.client.training import as_tensor
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.observation import FloatVector, Head, Observation, Samples, Unplaced
from sensecrypt.models import build_model, get_vector, mean_gradient, set_vector
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.types import BoolVector

Images = npt.NDArray[Any]
STRATEGIES = ("high", "low", "random", "classifier")
_WARM_UP_BATCH = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class SyntheticClient:
    """A client with its truth. Attacks get `observe(…)`, or `observation`, and nothing else of it.

    Attributes:
        observation: what was seen, with the mask that `synthetic_client` was given.
        counts: how many samples of each class the client has.
        inputs: its samples.
        labels: their classes.
        gradient: ĝ with nothing hidden.
        at_before: the gradient of all its samples at `before`; with one step the same.
        sensitivity: Γ = |w ⊙ g| of it.
        last_upload: ĝ as the upload of the round before would give it; in the first round nothing but the initial
            model was exposed, which gives 0.
        weights: W_i, the model after its training: what it uploads.
        scale: η·S.
    """

    observation: Observation
    counts: IntVector
    inputs: torch.Tensor
    labels: torch.Tensor
    gradient: FloatVector
    at_before: FloatVector
    sensitivity: FloatVector
    last_upload: FloatVector
    weights: npt.NDArray[np.float32]
    scale: float

    def observe(
        self,
        hidden: BoolVector,
        *,
        hidden_before: BoolVector | None = None,
        clear_sensitivity: bool = False,
        unplaced: Unplaced | None = None,
        mask: BoolVector | None = None,
    ) -> Observation:
        """The same client under another mask.

        Args:
            hidden: what is not in sight: it is encrypted, blinded, or who knows where.
            hidden_before: what was in the round before, where stale values come from; None: the same.
            clear_sensitivity: whether Γ is uploaded in the clear.
            unplaced: what is plain at positions that are secret.
            mask: which of the hidden is known to be encrypted; None: all.
        """
        checks.same_length("hidden", hidden, self.gradient.size, "the model")
        seen = self.observation
        return Observation(
            build=seen.build,
            before=seen.before,
            gradient=np.where(hidden, np.nan, self.gradient),
            samples=seen.samples,
            classes=seen.classes,
            stale=np.where(hidden if hidden_before is None else hidden_before, np.nan, self.last_upload),
            sensitivity=self.sensitivity if clear_sensitivity else None,
            unplaced=unplaced,
            mask=mask,
            public=seen.public,
            image_shape=seen.image_shape,
        )


def synthetic_client(
    model: str | Callable[[int], nn.Module],
    images: Images,
    labels: npt.NDArray[np.int64],
    *,
    classes: int,
    samples: int,
    seed: int,
    distribution: str = "iid",
    steps: int = 1,
    learning_rate: float = 0.1,
    minibatch: int | None = None,
    trained: int = 0,
    hidden: BoolVector | None = None,
    public_per_class: int = 50,
) -> SyntheticClient:
    """A client drawn from a data set, after its local training.

    Args:
        model: a name in the zoo, or what makes a network from a seed.
        images: (N, channels, height, width), 0 … 255; or inputs of any form as floating-point numbers.
        labels: of the images.
        classes: how many there are.
        samples: K.
        seed: all follows from it.
        distribution: `iid`, samples at random; or how many classes, themselves drawn at random, they come from.
        steps: S; with 1 the upload gives the gradient of all K samples (FedSGD), with more the mean of the steps'.
        learning_rate: η, of the client and of the steps before.
        minibatch: samples a local step, in shuffled passes over the data; None: all K.
        trained: steps on other people's data before this round, 64 samples of all classes each.
        hidden: what is encrypted; None: nothing.
        public_per_class: samples of each class that the adversary has; none of them is the client's.
    """
    checks.whole("steps", steps, low=1)
    checks.whole("trained", trained, low=0)
    own = _draw(labels, classes, samples, distribution, derive_rng(seed, "attacked client"))
    others = np.setdiff1d(np.arange(len(labels)), own)
    public = _per_class(labels, others, classes, public_per_class, derive_rng(seed, "attack public data"))

    def build() -> nn.Module:
        model_seed = derive_seed(seed, "attack model")
        return build_model(model, seed=model_seed) if isinstance(model, str) else model(model_seed)

    network = build().eval()
    data = _tensors(images, labels, own)
    passed = _warm_up(network, images, labels, others, trained, learning_rate, derive_rng(seed, "attack warm-up"))
    last_upload = np.zeros_like(passed[-1], dtype=np.float64)
    order = derive_rng(seed, "attack local steps")
    if trained:
        earlier, _ = _local_gradient(network, passed[-2], data, steps, learning_rate, minibatch, order)
        last_upload = earlier + (passed[-1].astype(np.float64) - passed[-2]) / (learning_rate * steps)
    before = passed[-1]
    gradient, weights = _local_gradient(network, before, data, steps, learning_rate, minibatch, order)
    whole = steps == 1 and minibatch is None
    at_before = gradient if whole else _gradient(network, before, data)
    nothing = np.zeros(before.size, dtype=bool)
    seen = Observation(
        build=build,
        before=before,
        gradient=gradient,
        samples=samples,
        classes=classes,
        public=_tensors(images, labels, public),
        image_shape=tuple(map(int, images.shape[1:])),
    )
    client = SyntheticClient(
        observation=seen,
        counts=np.bincount(labels[own], minlength=classes).astype(np.int64),
        inputs=data[0],
        labels=data[1],
        gradient=gradient,
        at_before=at_before,
        sensitivity=sensitivity(before.astype(np.float64), at_before).astype(np.float64),
        last_upload=last_upload,
        weights=weights,
        scale=learning_rate * steps,
    )
    observed = client.observe(nothing if hidden is None else hidden)
    return replace(client, observation=observed)


def hide_by(
    strategy: str,
    *,
    sensitivity: npt.ArrayLike,
    share: float,
    rng: np.random.Generator,
    head: Head | None = None,
) -> BoolVector:
    """Which parameters a strategy of Appendix H encrypts.

    Args:
        strategy: `high` or `low` sensitivity first, `random`, or `classifier`: the whole last layer, whatever `share`.
        sensitivity: Γ, one number a parameter.
        share: of the parameters.
        rng: for `random`.
        head: where the last layer is, for `classifier`.
    """
    checks.choice("strategy", strategy, STRATEGIES)
    scores = checks.finite_vector("sensitivity", sensitivity)
    many = round(checks.number("share", share, low=0.0, high=1.0) * scores.size)
    if strategy == "classifier":
        if head is None:
            raise InvalidInput("head", "is missing", "pass find_head(model, classes) to hide the classifier")
        chosen = np.concatenate([head.weight.ravel(), head.bias])
    elif strategy == "random":
        chosen = rng.choice(scores.size, many, replace=False)
    else:
        order, _ = descending_order(scores)
        chosen = order[:many] if strategy == "high" else order[scores.size - many :]
    hidden = np.zeros(scores.size, dtype=bool)
    hidden[chosen] = True
    return hidden


def _draw(
    labels: npt.NDArray[np.int64], classes: int, samples: int, distribution: str, rng: np.random.Generator
) -> IntVector:
    """Positions of the client's samples."""
    pool = np.arange(len(labels))
    if distribution != "iid":
        fix = "pass 'iid' or a number of classes"
        if not distribution.isdecimal() or not 1 <= int(distribution) <= classes:
            raise InvalidInput("distribution", f"is {distribution!r}", fix)
        pool = np.flatnonzero(np.isin(labels, rng.choice(classes, int(distribution), replace=False)))
    checks.whole("samples", samples, low=1, high=pool.size)
    return np.sort(rng.choice(pool, samples, replace=False))


def _per_class(
    labels: npt.NDArray[np.int64], pool: IntVector, classes: int, many: int, rng: np.random.Generator
) -> IntVector:
    """At most `many` positions of each class."""
    members = [pool[labels[pool] == label] for label in range(classes)]
    return np.concatenate([rng.permutation(group)[:many] for group in members])


def _tensors(images: Images, labels: npt.NDArray[np.int64], places: IntVector) -> Samples:
    return as_tensor(images[places]), torch.from_numpy(labels[places])


def _warm_up(
    network: nn.Module,
    images: Images,
    labels: npt.NDArray[np.int64],
    pool: IntVector,
    steps: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> list[npt.NDArray[np.float32]]:
    """The models of the last round but one and of the last: the aggregate of others is one of these steps."""
    passed = [get_vector(network)]
    for _ in range(steps):
        batch = _tensors(images, labels, rng.choice(pool, min(_WARM_UP_BATCH, pool.size), replace=False))
        following = passed[-1] - learning_rate * _gradient(network, passed[-1], batch)
        passed = [passed[-1], following.astype(np.float32)]
    return passed


def _local_gradient(
    network: nn.Module,
    before: npt.NDArray[np.float32],
    data: Samples,
    steps: int,
    learning_rate: float,
    minibatch: int | None,
    rng: np.random.Generator,
) -> tuple[FloatVector, npt.NDArray[np.float32]]:
    """ĝ = (before − after) / (η·S), the mean of the gradients along the client's steps; and where they lead."""
    total, weights = np.zeros(before.size), before
    size = len(data[1]) if minibatch is None else checks.whole("minibatch", minibatch, low=1, high=len(data[1]))
    waiting: IntVector = np.empty(0, dtype=np.int64)
    for _ in range(steps):
        if waiting.size == 0:
            waiting = rng.permutation(len(data[1]))
        batch, waiting = waiting[:size], waiting[size:]
        gradient = _gradient(network, weights, (data[0][batch], data[1][batch]))
        total += gradient
        weights = (weights - learning_rate * gradient).astype(np.float32)
    return total / steps, weights


def _gradient(network: nn.Module, weights: npt.NDArray[np.float32], data: Samples) -> FloatVector:
    set_vector(network, weights)
    return mean_gradient(network, *data).astype(np.float64)
