"""What one client does, in whatever process it is played: train, score, choose, seal."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.algo.clipping import clip_update
from sensecrypt.algo.dp import clip_rows, dp_noise, sample_noise
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.algo.sketching import sketch
from sensecrypt.config import RunConfig
from sensecrypt.engines.clock import SETUP
from sensecrypt.engines.jacobian import jacobian_map
from sensecrypt.engines.layers import encrypted_by_layer
from sensecrypt.engines.memo import timed
from sensecrypt.engines.meter import MeteredKey
from sensecrypt.engines.noise import noise_is_on, per_sample_noise
from sensecrypt.engines.randomness import stir, training_seed
from sensecrypt.engines.training import Fit, train
from sensecrypt.engines.worktime import work_seconds
from sensecrypt.errors import SenseCryptError
from sensecrypt.models import get_vector, mean_gradient, sample_gradients, set_vector
from sensecrypt.policies import get_policy
from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import Choice, Situation, spread_over
from sensecrypt.protocol.client import Sealed, model_format, seal_map, seal_model, seal_sensitivity
from sensecrypt.protocol.messages import Proposal
from sensecrypt.protocol.round import Round
from sensecrypt.types import BoolVector, Mask

Vector = npt.NDArray[np.float32]
Facts = dict[str, Any]
Sent = Vector | checks.FloatVector  # a model, or an update
_LOG = logging.getLogger("sensecrypt.client")
JACOBIAN_SAMPLES = 200  # as many as the paper measures FedML-HE with


@dataclass(frozen=True, eq=False)
class World:
    """What all clients of a run have: forked processes inherit it, it is never sent.

    Attributes:
        config: of the run.
        build: makes a fresh model.
        data: images and labels of every client, or in a fleet of the one that is here.
        key: the key to encrypt with, metered; the secret one only where clients share it.
        memo: where training results are kept for other runs, if anywhere.
        always: parameters that are encrypted whatever their sensitivity, by policies that heed it.
        fit: trains a model in place of stochastic gradient descent as configured.
        padded: whether what clients do not encrypt is padded.
        layers: names and sizes of the model's tensors, to tell how much of each is encrypted; None in a fleet, where
            the aggregator is not to learn where the secret order puts a layer.
        local: whether training draws from this machine's randomness, not from the run's seed.
        discreet: whether facts go to the aggregator, and so tell nothing that follows from the client's own data.
    """

    config: RunConfig
    build: Callable[[], nn.Module]
    data: Mapping[int, tuple[torch.Tensor, torch.Tensor]]
    key: MeteredKey
    memo: Path | None = None
    always: BoolVector | None = None
    fit: Fit | None = None
    padded: bool = True
    layers: Mapping[str, int] | None = None
    discreet: bool = False
    local: bool = False

    @property
    def policy(self) -> Policy:
        """Who encrypts what."""
        return get_policy(self.config.policy)

    def seed(self, purpose: str, *path: int) -> int:
        """The seed of what is drawn for one purpose, round and client."""
        return training_seed(self.config.seed, purpose, *path, local=self.local)


@dataclass(frozen=True, eq=False)
class Trained:
    """A client's model after local training.

    Attributes:
        weights: the model.
        gradient: at the weights that `_scored_at` names, if the policy asked for it.
        facts: the seconds of work that both took.
    """

    weights: Vector
    gradient: Vector | None
    facts: Facts


@dataclass(frozen=True, eq=False)
class Task:
    """One client's part in one round.

    Attributes:
        client: who.
        round: the round.
        vector: the cluster's model.
        order: the cluster's order of the parameters, in the prefix layout.
        profile: the cluster's mean sensitivity of each block along it.
        ranking: the parameters by what clients summed before the first round, in the other layouts.
        exposed: what an adversary knows of the cluster's model, for methods that ask.
        budget: α.
        receipt_seed: of the round.
        refresh: the round of sensitivities that follows, and its receipt seed, when the order is to be made anew.
        agreed: the blocks that clients agreed on, in the second exchange of methods that have two.
        trained: what the first exchange left.
    """

    client: int
    round: Round
    vector: Vector
    order: checks.IntVector | None
    profile: checks.FloatVector | None
    ranking: checks.IntVector | None
    exposed: Vector | None
    budget: float
    receipt_seed: bytes
    refresh: tuple[Round, bytes] | None
    agreed: BoolVector | None = None
    trained: Trained | None = None


@dataclass(frozen=True, eq=False)
class Described:
    """What a client says of its data for clustering, and the facts of saying it."""

    row: checks.FloatVector
    facts: Facts


@dataclass(frozen=True, eq=False)
class Proposed:
    """What came of a first exchange: a message and a trained model, or why there is none."""

    client: int
    message: bytes | None = None
    trained: Trained | None = None
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a task: messages and facts, or why there are none; what it sent only where messages are kept."""

    client: int
    model: Sealed | None = None
    sensitivity: Sealed | None = None
    facts: Facts | None = None
    failure: str | None = None
    own: Sent | None = None


def describe_data(world: World, client: int, vector: Vector, sketch_seed: bytes | None) -> Described:
    """A client's sensitivities for clustering: sketched with the seed, or in the clear without one."""
    return describe_gains(*clustering_gains(world, client, vector), sketch_seed)


def describe_gains(gains: checks.FloatVector, facts: Facts, sketch_seed: bytes | None) -> Described:
    """What is sent of these sensitivities, and the facts of both."""
    start = work_seconds()
    row = gains if sketch_seed is None else sketch(gains, seed=sketch_seed)
    seconds = facts["sensitivity_seconds"] + work_seconds() - start
    return Described(row, {**facts, "sensitivity_seconds": seconds, "bytes_up": row.nbytes})


def clustering_gains(world: World, client: int, vector: Vector) -> tuple[checks.FloatVector, Facts]:
    """A client's sensitivities over all its samples, with noise where the run asks for it; nothing else is sent.

    They are computed at `vector`, or, with `clustering_gradient=trained`, after one iteration of training from it.
    """
    config, facts = world.config, Facts()
    if config.clustering_gradient == "trained":
        vector, facts["train_seconds"] = _fit(world, client, vector, SETUP)
    total, noise = len(world.data[client][1]), (config.sensitivity_epsilon, config.sensitivity_delta)
    clip = config.sensitivity_clip
    if per_sample_noise(config):
        mean, seconds = _clipped_mean(world, client, vector, clip)
        start = work_seconds()
        gains = sample_noise(np.abs(mean), samples=total, clip=clip, epsilon=noise[0], delta=noise[1])
    else:
        gradient, seconds = _gradient(world, client, vector, SETUP, samples=0)
        facts["pass_seconds"] = seconds
        start = work_seconds()
        gains = sensitivity(vector, gradient).astype(np.float64)
        if noise_is_on(config):
            gains = dp_noise(gains, clip=clip, epsilon=noise[0], delta=noise[1])
    return gains, {**facts, "sensitivity_seconds": seconds + work_seconds() - start}


def seal_ranking(world: World, client: int, vector: Vector, round_: Round, seed: bytes) -> Done:
    """A client's scores of the initial model's parameters, encrypted: their sum gives everybody one ranking.

    They carry no noise of Appendix G: only the key server sees their sum, and nobody sees one client's.
    """
    try:
        if world.policy.ranks_by == "jacobian":
            start = work_seconds()
            scores = jacobian_map(_model(world, vector), *_sample(world, client, -1, JACOBIAN_SAMPLES))
            seconds = work_seconds() - start
        else:
            gradient, seconds = _gradient(world, client, vector, -1, samples=world.config.sensitivity_samples)
            scores = sensitivity(vector, gradient).astype(np.float64)
        seal = seal_map if world.policy.ranks_by == "jacobian" else seal_sensitivity
        world.key.meter.take()
        start = work_seconds()
        sealed = seal(scores, round_, client=client, key=world.key, seed=seed)
        facts = {"sensitivity_seconds": seconds, "bytes_up": len(sealed.upload), **_sealing(world, start, "order_")}
        untold = world.config.clustering == "none" or per_sample_noise(world.config)
        if untold and world.policy.ranks_by == "sensitivity":
            total = len(world.data[client][1])
            facts["pass_seconds"] = seconds * total / min(total, world.config.sensitivity_samples or total)
        return Done(client, sensitivity=sealed, facts=facts)
    except SenseCryptError as error:
        return Done(client, failure=str(error))


def propose_blocks(world: World, task: Task) -> Proposed:
    """Train, score, and say which blocks to encrypt: the first of two exchanges."""
    try:
        trained = _train(world, task)
        start = work_seconds()
        propose = world.policy.propose
        if propose is None:
            raise SenseCryptError(f"policy {world.config.policy} proposes nothing")
        message = Proposal(task.client, propose(_situation(world, task, trained))).to_bytes(task.round)
        trained.facts["select_seconds"] = work_seconds() - start
        return Proposed(task.client, message, trained)
    except SenseCryptError as error:
        return Proposed(task.client, failure=str(error))


def play_round(world: World, task: Task) -> Done:
    """Train, score, choose, encrypt; a failure of this client is not raised.

    Where clients send updates, one that fails sends a zero update: whether training works depends on its data, and
    nobody is to see that. The reason is in this client's log, and in its facts if these stay on this machine.
    """
    trained, start = task.trained, work_seconds()
    try:
        trained = trained or _train(world, task)
        return _play(world, task, trained)
    except Exception as error:
        told = isinstance(error, SenseCryptError)
        if task.round.clip is None:
            if not told:
                raise
            return Done(task.client, failure=str(error))
        reason = str(error) if told else f"{type(error).__name__}: {error}"
        _LOG.warning("round %d: a zero update is sent, because: %s", task.round.number, reason)
    spent: Facts = {"train_seconds": work_seconds() - start} if trained is None else dict(trained.facts)
    if trained is None:  # a 0 would tell that training failed
        spent["sensitivity_seconds"] = spent["train_seconds"] if world.policy.needs_gradient else 0.0
    return _play_zero(world, task, spent if world.discreet else {**spent, "failure": reason})


def _play_zero(world: World, task: Task, facts: Facts) -> Done:
    """The upload of a client that could not train: nothing is learned, and as much encrypted as if it had.

    Its facts are the seconds that were spent, like those of a client that trained.
    """
    unmoved = Trained(task.vector, None, facts)
    if _decides_by_shared(world, task) or not world.policy.needs_gradient:
        with contextlib.suppress(SenseCryptError):
            return _play(world, task, unmoved)
    everything = Mask.prefix(task.round.blocks, size=task.round.size, block=task.round.block, order=task.order)
    return _play(world, task, unmoved, Choice(everything))


def _play(world: World, task: Task, trained: Trained, choice: Choice | None = None) -> Done:
    facts = dict(trained.facts)
    start = work_seconds()
    if choice is None:
        choice = world.policy.choose(_situation(world, task, trained))
    facts["select_seconds"] = facts.get("select_seconds", 0.0) + work_seconds() - start
    world.key.meter.take()
    start = work_seconds()
    key, client = world.key, task.client
    sent, clipped = _to_send(task, trained)
    if clipped is not None and not world.discreet:
        facts["clipped"] = clipped
    sealed = seal_model(
        sent,
        choice.mask,
        task.round,
        client=client,
        key=key,
        seed=task.receipt_seed,
        padded=world.padded,
    )
    facts |= {**_sealing(world, start), "bytes_up": len(sealed.upload)}
    gains = _gains(world, task, trained, choice)
    refreshed = None
    if task.refresh is not None and gains is not None:
        start = work_seconds()
        refreshed = seal_sensitivity(gains, task.refresh[0], client=client, key=key, seed=task.refresh[1])
        facts |= _sealing(world, start, "order_")
        facts["bytes_up"] += len(refreshed.upload)
    facts |= {
        "encrypted_share": choice.mask.share,
        "coverage": choice.mask.share if gains is None else choice.mask.coverage(gains),
        "mi": choice.mi,
        **(_discreet(task, choice) if world.discreet else {}),
        "budget": task.budget,
        "decided_by": choice.decided_by,
        "feasible": choice.feasible,
    }
    if world.layers is not None:
        facts["layers"] = encrypted_by_layer(choice.mask, world.layers)
    own = sent if world.config.messages == "keep" else None
    return Done(client, sealed, refreshed, facts, own=own)


def _to_send(task: Task, trained: Trained) -> tuple[Sent, bool | None]:
    """What is encoded: the model, or the clipped update and whether it was longer than allowed."""
    if task.round.clip is None:
        return trained.weights, None
    update = trained.weights.astype(np.float64) - task.vector
    return clip_update(update, norm=task.round.clip, largest=model_format(task.round).largest)


def _discreet(task: Task, choice: Choice) -> Facts:
    """Coverage and leakage as the cluster's shared profile tells them; without one, neither."""
    if task.order is None or task.profile is None:
        return {"coverage": choice.mask.share, "mi": None}
    return {"coverage": choice.mask.coverage(spread_over(task.profile, task.order, task.round.block))}


def _fit(world: World, client: int, vector: Vector, number: int) -> tuple[Vector, float]:
    """A client's model after one iteration of local training from `vector`, and the seconds of work that it took."""
    config = world.config
    images, labels = world.data[client]

    def make() -> Vector:
        model, seed = _model(world, vector), world.seed("batches", number, client)
        if world.local:
            stir()
        if world.fit is not None:
            world.fit(model, images, labels, seed)
            return get_vector(model)
        return train(
            model,
            images,
            labels,
            epochs=config.local_epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            momentum=config.momentum,
            seed=seed,
        )

    settings = (config.local_epochs, config.batch_size, config.learning_rate, config.momentum)
    key = ("train", *_problem_key(config), *settings, number, client)
    return timed(world.memo, key, vector, make)


def _train(world: World, task: Task) -> Trained:
    config, client, number = world.config, task.client, task.round.number
    weights, seconds = _fit(world, client, task.vector, number)
    facts: Facts = {"train_seconds": seconds, "sensitivity_seconds": 0.0}
    gradient = None
    if world.policy.needs_gradient:
        samples = config.sensitivity_samples
        scored = _scored_at(world, task, weights)
        gradient, facts["sensitivity_seconds"] = _gradient(world, client, scored, number, samples=samples)
    return Trained(weights, gradient, facts)


def _scored_at(world: World, task: Task, trained: Vector) -> Vector:
    """The weights w at which this round's sensitivities |w·g(w)| are computed."""
    return task.vector if world.config.gradient == "start" else trained


def _situation(world: World, task: Task, trained: Trained) -> Situation:
    config = world.config
    weights, gradient, gains = trained.weights, trained.gradient, None
    if gradient is not None and world.policy.propose is None:
        gains = sensitivity(_scored_at(world, task, weights), gradient).astype(np.float64)
    if _decides_by_shared(world, task):
        weights, gains = task.vector, _shared_gains(task)
    return Situation(
        weights=weights,
        gradient=gradient,
        sensitivity=gains,
        budget=task.budget,
        ratio=config.ratio,
        block=task.round.block,
        order=task.order,
        ranking=task.ranking,
        exposed=task.exposed,
        agreed=task.agreed,
        always=world.always,
        rng=np.random.default_rng(world.seed("choice", task.round.number, task.client)),
        B=config.B,
        C=config.C,
        max_mi=config.max_mi if config.max_mi >= 0 else None,
        objective=config.objective,
        on_infeasible=config.on_infeasible,
        bins=config.bins,
        beta=config.beta,
        normalise=config.normalise,
    )


def _decides_by_shared(world: World, task: Task) -> bool:
    """Whether members decide by what their cluster shares: equal budgets give equal prefixes, no block stands alone."""
    return task.order is not None and task.profile is not None and world.policy.heeds_always


def _shared_gains(task: Task) -> checks.FloatVector | None:
    """The cluster's mean sensitivity of every parameter, if it has an order."""
    if task.order is None or task.profile is None:
        return None
    return spread_over(task.profile, task.order, task.round.block)


def _gains(world: World, task: Task, trained: Trained, choice: Choice) -> checks.FloatVector | None:
    """|w·g| to tell the coverage with; for a method that does not need it, computed off the clock and only if asked."""
    gradient, scored = trained.gradient, _scored_at(world, task, trained.weights)
    if gradient is None:
        if trained.weights is task.vector:  # training failed: what the cluster shares stands for the client's own
            return _shared_gains(task)
        if choice.mask.blocks in (0, choice.mask.flags.size):
            return None
        samples = world.config.sensitivity_samples
        gradient, _ = _gradient(world, task.client, scored, task.round.number, samples=samples)
    return sensitivity(scored, gradient).astype(np.float64)


def _sealing(world: World, start: float, prefix: str = "") -> Facts:
    """The seconds since `start`, apart for encryption and for everything else."""
    took = work_seconds() - start
    spent = world.key.meter.take()
    return {
        f"{prefix}seal_seconds": max(0.0, took - spent.actual_seconds),
        f"{prefix}encrypt_seconds": spent.seconds["encrypt"],
        f"{prefix or 'encrypted_'}blocks": spent.blocks["encrypt"],
        f"{prefix}ahead_seconds": spent.ahead_seconds,
    }


def _gradient(world: World, client: int, vector: Vector, number: int, *, samples: int) -> tuple[Vector, float]:
    images, labels = _sample(world, client, number, samples)
    key = ("gradient", *_problem_key(world.config), number, client, samples)
    return timed(world.memo, key, vector, lambda: mean_gradient(_model(world, vector), images, labels))


def _clipped_mean(world: World, client: int, vector: Vector, clip: float) -> tuple[Vector, float]:
    """The mean over a client's samples of w·g_j, each clipped to that length; and the seconds of work."""
    images, labels = world.data[client]

    def make() -> Vector:
        total = np.zeros(vector.size)
        for gradients in sample_gradients(_model(world, vector), images, labels):
            total += clip_rows(vector * gradients, clip).sum(axis=0)
        return (total / len(labels)).astype(np.float32)

    return timed(world.memo, ("clipped mean", *_problem_key(world.config), client, clip), vector, make)


def _sample(world: World, client: int, number: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As many of a client's samples, others in every round; 0: all."""
    images, labels = world.data[client]
    if not 0 < samples < len(labels):
        return images, labels
    rng = np.random.default_rng(world.seed("sensitivity", max(number, 0), client))
    chosen = torch.from_numpy(rng.permutation(len(labels))[:samples])
    return images[chosen], labels[chosen]


def _problem_key(config: RunConfig) -> tuple[object, ...]:
    return config.dataset, config.model, config.clients, config.partition, config.seed


def _model(world: World, vector: Vector) -> nn.Module:
    model = world.build()
    set_vector(model, vector)
    return model
