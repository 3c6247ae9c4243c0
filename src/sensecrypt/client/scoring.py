"""Local training, and a client's scores of parameters: gradients, sensitivities, encrypted scores for an order."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch

from sensecrypt import checks
from sensecrypt.algo.dp import clip_rows, dp_noise, sample_noise
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.algo.sketching import sketch
from sensecrypt.client.context import ClientContext, Vector, no_pair
from sensecrypt.client.data import ClientData
from sensecrypt.client.jacobian import jacobian_map
from sensecrypt.client.training import output_of, train_on
from sensecrypt.client.usercode import explained, on_device, seeded, size_of
from sensecrypt.config import RunConfig
from sensecrypt.models import (
    constants,
    get_vector,
    gradient_vector,
    mean_gradient,
    require_constants,
    sample_gradients,
)
from sensecrypt.protocol.protection import ProtectedUpdate, protect_map, protect_sensitivity
from sensecrypt.protocol.round import Round
from sensecrypt.records import SETUP, Facts, grown
from sensecrypt.runs.noise import noise_is_on, per_sample_noise
from sensecrypt.simulation.trainingcache import timed
from sensecrypt.worktime import work_seconds


def train_locally(context: ClientContext, client: int, vector: Vector, number: int) -> tuple[Vector, float]:
    """Return a client's model after one iteration of local training from `vector`, and the seconds of work."""
    config, recipe = context.config, context.recipe

    def make() -> Vector:
        data, model, seed = context.own(client), context.model(vector), context.seed("batches", number, client)
        with seeded(seed), explained(f"clients[{client}]", model):
            data.begin(seed)
            if recipe.fit is not None:
                before = constants(model)
                recipe.fit(model, data.own, max(number, 0))
                require_constants(model, before)
                return get_vector(model)
            return train_on(
                model,
                data,
                recipe,
                epochs=config.training.local_epochs,
                batch_size=config.training.batch_size,
                learning_rate=config.training.learning_rate,
                momentum=config.training.momentum,
                seed=seed,
                number=max(number, 0),
            )

    training = config.training
    settings = (training.local_epochs, training.batch_size, training.learning_rate, training.momentum)
    key = ("train", *problem_key(config), *settings, number, client)
    return timed(context.cache, key, vector, make)


def problem_key(config: RunConfig) -> tuple[object, ...]:
    """Return the settings that training results depend on, without those of training itself."""
    return (
        config.problem.dataset,
        config.problem.model,
        config.problem.clients,
        config.problem.partition,
        config.problem.seed,
    )


_LOG = logging.getLogger("sensecrypt.client")
GRADIENT_BATCH = 128  # samples at once
JACOBIAN_SAMPLES = 200  # the number with which the paper measures FedML-HE


@dataclass(frozen=True, eq=False)
class Described:
    """A client's vector for clustering, and the facts about it."""

    row: checks.FloatVector
    facts: Facts


def describe_gains(gains: checks.FloatVector, facts: Facts, sketch_seed: bytes | None) -> Described:
    """Return the vector for clustering: the sensitivities or, with a seed, their sketch."""
    start = work_seconds()
    row = gains if sketch_seed is None else sketch(gains, seed=sketch_seed)
    return Described(row, grown(facts, {"sensitivity_seconds": work_seconds() - start, "bytes_up": row.nbytes}))


def clustering_gains(context: ClientContext, client: int, vector: Vector) -> tuple[checks.FloatVector, Facts]:
    """Return a client's sensitivities over all its samples, with noise if the run requests it.

    They are computed at `vector` or, with `clustering_gradient=trained`, after one iteration of training from it.
    """
    config, trained, whole = context.config, None, None
    if config.groups.clustering_gradient == "trained":
        vector, trained = train_locally(context, client, vector, SETUP)
    total, noise = context.own(client).samples, (config.groups.sensitivity_epsilon, config.groups.sensitivity_delta)
    clip = config.groups.sensitivity_clip
    if per_sample_noise(config):
        mean, seconds = _clipped_mean(context, client, vector, clip)
        start = work_seconds()
        gains = sample_noise(np.abs(mean), samples=total, clip=clip, epsilon=noise[0], delta=noise[1])
    else:
        gradient, seconds = gradient_of(context, client, vector, SETUP, samples=0)
        whole = seconds
        start = work_seconds()
        gains = sensitivity(vector, gradient).astype(np.float64)
        if noise_is_on(config):
            gains = dp_noise(gains, clip=clip, epsilon=noise[0], delta=noise[1])
    seconds += work_seconds() - start
    return gains, Facts(train_seconds=trained, pass_seconds=whole, sensitivity_seconds=seconds)


def gradient_of(
    context: ClientContext, client: int, vector: Vector, number: int, *, samples: int
) -> tuple[Vector, float]:
    """Return the mean gradient over `samples` of a client's samples (0: all), and the seconds of work.

    For a user's own training function without a loss, the change of the model replaces the gradient.
    """
    if context.recipe.by_difference:
        trained, seconds = train_locally(context, client, vector, number)
        return vector - trained, seconds
    data = _sample(context, client, number, samples)
    key = ("gradient", *problem_key(context.config), number, client, samples)
    return timed(context.cache, key, vector, lambda: _mean_gradient(context, client, vector, data))


def _mean_gradient(context: ClientContext, client: int, vector: Vector, data: ClientData) -> Vector:
    """Return the mean gradient over all samples of `data`, in evaluation mode: samples do not affect each other."""
    model, recipe, pair = context.model(vector), context.recipe, data.pair
    with seeded(0), explained(f"clients[{client}]", model):
        if (
            pair is not None
            and recipe.plain
            and {each.dtype for each in (pair[0], *model.parameters())} == {torch.float32}
        ):
            return mean_gradient(model, *pair)
        model.eval()
        model.zero_grad()
        total = 0
        for each in data.ordered(GRADIENT_BATCH):
            batch, many = on_device(each, recipe.device), size_of(each)
            torch.autograd.backward(recipe.loss_of(output_of(model, batch), batch) * many)
            total += many
        for parameter in model.parameters():
            if parameter.requires_grad:  # a parameter that the loss does not depend on has no gradient
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad / total
        return gradient_vector(model)


def _clipped_mean(context: ClientContext, client: int, vector: Vector, clip: float) -> tuple[Vector, float]:
    """Return the mean over a client's samples of w·g_j, each clipped to norm `clip`, and the seconds of work."""
    images, labels = context.pair(client, "noise per sample")

    def make() -> Vector:
        total = np.zeros(vector.size)
        for gradients in sample_gradients(context.model(vector), images, labels):
            total += clip_rows(vector * gradients, clip).sum(axis=0)
        return (total / len(labels)).astype(np.float32)

    return timed(context.cache, ("clipped mean", *problem_key(context.config), client, clip), vector, make)


def _sample(context: ClientContext, client: int, number: int, samples: int) -> ClientData:
    """Return `samples` of a client's samples, different ones in every round; 0: all."""
    data = context.own(client)
    if samples == 0:
        return data
    return data.some(samples, np.random.default_rng(context.seed("sensitivity", max(number, 0), client)))


def rank_parameters(
    context: ClientContext, client: int, vector: Vector, round_: Round, seed: bytes
) -> tuple[ProtectedUpdate, Facts]:
    """Return a client's encrypted scores of the initial model's parameters; their sum gives one order for all.

    The noise of Appendix G is not added: only the key server decrypts, and only the sum.
    """
    by_jacobian = context.config.policy.ranks_by == "jacobian"
    begun = work_seconds()
    try:
        scores, seconds = _scores(context, client, vector)
    except Exception as error:  # it may depend on this client's data, so the reply must not show it
        if not context.discreet:
            raise
        _LOG.warning("all parameters get the same rank, because: %s: %s", type(error).__name__, error)
        scores, seconds = np.ones(vector.size), work_seconds() - begun
    start = work_seconds()
    protect = protect_map if by_jacobian else protect_sensitivity
    protected = protect(scores, round_, client=client, key=context.key, seed=seed)
    facts = ordering_facts(Facts(sensitivity_seconds=seconds, bytes_up=0), protected, work_seconds() - start)
    if (context.config.groups.clustering == "none" or per_sample_noise(context.config)) and not by_jacobian:
        total = context.own(client).samples
        whole = seconds * total / min(total, context.config.selection.sensitivity_samples or total)
        facts = replace(facts, pass_seconds=whole)
    return protected, facts


def _scores(context: ClientContext, client: int, vector: Vector) -> tuple[checks.FloatVector, float]:
    """Return the scores by which the policy ranks parameters, and the seconds of work."""
    if context.config.policy.ranks_by == "jacobian":
        start = work_seconds()
        pair = _sample(context, client, SETUP, JACOBIAN_SAMPLES).pair
        if pair is None:
            raise no_pair(client, f"policy {context.config.selection.policy}")
        scores = jacobian_map(context.model(vector), *pair)
        return scores, work_seconds() - start
    gradient, seconds = gradient_of(
        context, client, vector, SETUP, samples=context.config.selection.sensitivity_samples
    )
    gains = sensitivity(vector, gradient).astype(np.float64)
    return checks.sensitivity_vector("sensitivity", gains), seconds


def ordering_facts(facts: Facts, protected: ProtectedUpdate, seconds: float) -> Facts:
    """Return the facts with those of the sensitivities for a new order, whose protection took `seconds` in total."""
    cost = protected.cost
    return replace(
        facts,
        order_protect_seconds=max(0.0, seconds - cost.total_seconds),
        order_encrypt_seconds=cost.seconds.get("encrypt", 0.0),
        order_blocks=cost.blocks.get("encrypt", 0),
        order_ahead_seconds=cost.ahead_seconds,
        bytes_up=(facts.bytes_up or 0) + len(protected.upload),
    )
