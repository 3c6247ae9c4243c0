"""Clients whose data is known, to measure attacks: what an adversary sees of them, and the truth.

A client has K samples and trains on them in every round. All draws follow from the seed. Networks are always in
evaluation mode, so that batch normalisation does not use the batch.
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
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.checks import IntVector
from sensecrypt.client.training import as_tensor
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.observation import FloatVector, Observation, Samples, Unplaced
from sensecrypt.models import build_model, get_vector, mean_gradient, set_vector
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.types import BoolVector

Images = npt.NDArray[Any]
_WARM_UP_BATCH = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class SyntheticClient:
    """A client with its data. Attacks receive only `observe(…)` or `observation`."""

    observation: Observation  # with nothing hidden
    counts: IntVector  # samples per class
    inputs: torch.Tensor  # its samples
    labels: torch.Tensor  # their classes
    gradient: FloatVector  # ĝ with nothing hidden
    at_before: FloatVector  # gradient of all samples at `before`; with one step, `gradient`
    sensitivity: FloatVector  # Γ = |w ⊙ g| of `at_before`
    # ĝ by the previous round's upload; 0 in the first round, as only the initial model was exposed
    last_upload: FloatVector
    weights: npt.NDArray[np.float32]  # W_i, the model after training, which it uploads
    scale: float  # η·S

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
            hidden: what is not visible: it is encrypted, blinded, or at an unknown position.
            hidden_before: what was hidden in the previous round, which stale values come from; None: the same.
            clear_sensitivity: whether Γ is uploaded in the clear.
            unplaced: plain values at secret positions.
            mask: which of the hidden parameters are known to be encrypted; None: all.
        """
        checks.same_length("hidden", hidden, self.gradient.size, "the model")
        return replace(
            self.observation,
            gradient=np.where(hidden, np.nan, self.gradient),
            stale=np.where(hidden if hidden_before is None else hidden_before, np.nan, self.last_upload),
            sensitivity=self.sensitivity if clear_sensitivity else None,
            unplaced=unplaced,
            mask=mask,
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
    public_per_class: int = 50,
) -> SyntheticClient:
    """A client drawn from a data set, after its local training.

    Args:
        model: a name in the zoo, or a function that makes a network from a seed.
        images: (N, channels, height, width), 0 … 255; or inputs of any shape as floating-point numbers.
        labels: of the images.
        classes: number of classes.
        samples: K.
        seed: of all draws.
        distribution: `iid`, samples at random; or the number of classes they are from, which are drawn at random.
        steps: S; with 1 the upload gives the gradient of all K samples (FedSGD), with more the mean over the steps.
        learning_rate: η, of the client and of `trained`.
        minibatch: samples per local step, in shuffled passes over the data; None: all K.
        trained: steps on other clients' data before this round, each on 64 samples of all classes.
        public_per_class: samples per class that the adversary has, none of them the client's.
    """
    checks.whole("steps", steps, low=1)
    checks.whole("trained", trained, low=0)
    own = _draw(labels, classes, samples, distribution, derive_rng(seed, "attacked client"))
    others = np.setdiff1d(np.arange(len(labels)), own)
    public = per_class(labels, others, classes, public_per_class, derive_rng(seed, "attack public data"))

    def build() -> nn.Module:
        model_seed = derive_seed(seed, "attack model")
        return build_model(model, seed=model_seed) if isinstance(model, str) else model(model_seed)

    network = build().eval()
    data = samples_at(images, labels, own)
    passed = _warm_up(network, images, labels, others, trained, learning_rate, derive_rng(seed, "attack warm-up"))
    last_upload = np.zeros_like(passed[-1], dtype=np.float64)
    order = derive_rng(seed, "attack local steps")
    if trained:
        earlier, _ = _local_gradient(network, passed[-2], data, steps, learning_rate, minibatch, order)
        last_upload = earlier + (passed[-1].astype(np.float64) - passed[-2]) / (learning_rate * steps)
    before = passed[-1]
    gradient, weights = _local_gradient(network, before, data, steps, learning_rate, minibatch, order)
    at_before = gradient if steps == 1 and minibatch is None else _gradient(network, before, data)
    seen = Observation(
        build=build,
        before=before,
        gradient=gradient,
        samples=samples,
        classes=classes,
        stale=last_upload,
        public=samples_at(images, labels, public),
        image_shape=tuple(map(int, images.shape[1:])),
    )
    return client_with(seen, data, weights, at_before=at_before, last_upload=last_upload, scale=learning_rate * steps)


def client_with(
    seen: Observation,
    data: Samples,
    weights: npt.NDArray[np.float32],
    *,
    at_before: FloatVector,
    last_upload: FloatVector,
    scale: float,
) -> SyntheticClient:
    """The client with this data whose upload, if nothing is hidden, is `seen`."""
    return SyntheticClient(
        observation=seen,
        counts=np.bincount(data[1].numpy(), minlength=seen.classes).astype(np.int64),
        inputs=data[0],
        labels=data[1],
        gradient=seen.gradient,
        at_before=at_before,
        sensitivity=sensitivity(seen.before.astype(np.float64), at_before).astype(np.float64),
        last_upload=last_upload,
        weights=weights,
        scale=scale,
    )


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


def per_class(
    labels: npt.NDArray[np.int64], pool: IntVector, classes: int, many: int, rng: np.random.Generator
) -> IntVector:
    """At most `many` positions of each class."""
    members = [pool[labels[pool] == label] for label in range(classes)]
    return np.concatenate([rng.permutation(group)[:many] for group in members])


def samples_at(images: Images, labels: npt.NDArray[np.int64], places: IntVector) -> Samples:
    """Samples of a data set as networks take them, with pixels in 0 … 1."""
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
    """The models before and after the last of these steps; each is one round of other clients."""
    passed = [get_vector(network)]
    for _ in range(steps):
        batch = samples_at(images, labels, rng.choice(pool, min(_WARM_UP_BATCH, pool.size), replace=False))
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
    """ĝ = (before − after) / (η·S), the mean gradient of the client's steps; and the model after them."""
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
