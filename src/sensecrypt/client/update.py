"""Computes a client's update: train, score, select, clip, protect. If a step fails, the client sends a zero update."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.clipping import clip_update
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.scoring import gradient_of, ordering_facts, train_locally
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.policies.situation import Choice, Situation, blocks_of, spread_over
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.messages import Proposal
from sensecrypt.protocol.protection import ProtectedUpdate, model_format, protect_model, protect_sensitivity
from sensecrypt.protocol.requests import LONGEST_FAILURE, printable
from sensecrypt.protocol.round import Round
from sensecrypt.records import Facts, grown
from sensecrypt.types import BoolVector, Mask
from sensecrypt.worktime import work_seconds


def encrypted_by_layer(mask: Mask, layers: Mapping[str, int]) -> dict[str, list[int]]:
    """Return for each layer the number of its encrypted parameters and of all its parameters.

    Args:
        mask: the mask.
        layers: names and sizes of all layers, in the order of the vector.
    """
    ends = np.cumsum(list(layers.values()))
    parts = np.split(mask.to_array(), ends[:-1])
    return {name: [int(np.count_nonzero(part)), part.size] for name, part in zip(layers, parts, strict=True)}


Sent = Vector | checks.FloatVector  # a model, or an update
_LOG = logging.getLogger("sensecrypt.client")


@dataclass(frozen=True, eq=False)
class Trained:
    """A client's model after local training.

    Attributes:
        weights: the model.
        gradient: the gradient at the weights of `_scored_at`, if the round needs it.
        facts: the seconds of work for both.
    """

    weights: Vector
    gradient: Vector | None
    facts: Facts


@dataclass(frozen=True, eq=False)
class Task:
    """One client's part in one round.

    Attributes:
        client: the client's number.
        round: the round.
        vector: the cluster's model.
        order: the cluster's importance order, in the prefix layout.
        ranking: the ranking of the parameters from before the first round, in the other layouts.
        exposed: the adversary's estimate of the cluster's model, for methods that need it.
        budget: α.
        tag_seed: the seed of the round's tags.
        refresh: the round of sensitivities that follows, and its tag seed, if a new order is due.
        agreed: the blocks that clients agreed on, in the second exchange of methods with two.
    """

    client: int
    round: Round
    vector: Vector
    order: ImportanceOrder | None
    ranking: checks.IntVector | None
    exposed: Vector | None
    budget: float
    tag_seed: bytes
    refresh: tuple[Round, bytes] | None
    agreed: BoolVector | None = None

    @property
    def slots(self) -> checks.IntVector | None:
        """The parameter in each slot; None: the natural order."""
        return None if self.order is None else self.order.order


@dataclass(frozen=True, eq=False)
class Update:
    """A client's messages of a round, and what they contain.

    Attributes:
        model: the upload and its tag.
        sensitivity: sensitivities for a new order, and their tag, if one is due.
        facts: the facts for the run's records.
        mask: the encrypted blocks.
        sent: the values before protection.
    """

    model: ProtectedUpdate
    sensitivity: ProtectedUpdate | None
    facts: Facts
    mask: Mask
    sent: Sent


def train_and_score(context: ClientContext, task: Task) -> Trained:
    """Train locally, and compute the gradient if the round needs it."""
    config, client, number = context.config, task.client, task.round.number
    weights, seconds = train_locally(context, client, task.vector, number)
    _require_finite(weights, context.layers)
    gradient, scoring = None, 0.0
    if context.recipe.by_difference:
        gradient = task.vector - weights if context.config.policy.needs_gradient else None
    elif _scores(context, task):
        scored = _scored_at(context, task, weights)
        samples = config.selection.sensitivity_samples
        gradient, scoring = gradient_of(context, client, scored, number, samples=samples)
    return Trained(weights, gradient, Facts(train_seconds=seconds, sensitivity_seconds=scoring))


def train_and_propose(context: ClientContext, task: Task) -> tuple[bytes, Trained]:
    """Return the message with the proposed blocks, and the trained model: the first of two exchanges.

    A client that fails proposes random blocks, and uploads a zero update in the second exchange.
    """
    start = work_seconds()
    try:
        return propose_blocks(context, task, train_and_score(context, task))
    except Exception as error:
        reason = _log_failure(task, error)
    seconds = work_seconds() - start
    many = blocks_of(context.config.selection.ratio, task.round.blocks, task.round.block)
    blocks = np.array(secrets.SystemRandom().sample(range(task.round.blocks), many), dtype=np.int64)
    spent = Facts(train_seconds=seconds, sensitivity_seconds=seconds, select_seconds=seconds)
    return Proposal(task.client, blocks).to_bytes(task.round), _untrained(context, task, reason, spent)


def propose_blocks(context: ClientContext, task: Task, trained: Trained) -> tuple[bytes, Trained]:
    """Return the message with the proposed blocks, and `trained` with the seconds of proposing."""
    start = work_seconds()
    if context.config.policy.propose is None:
        raise SenseCryptError(f"policy {context.config.selection.policy} proposes nothing")
    message = Proposal(task.client, context.config.policy.propose(_situation(context, task, trained))).to_bytes(
        task.round
    )
    return message, replace(trained, facts=replace(trained.facts, select_seconds=work_seconds() - start))


def make_update(context: ClientContext, task: Task, trained: Trained | None = None) -> Update:
    """Train, score, select, encrypt, and return the update.

    If clients send updates, a client that fails sends a zero update: whether training succeeds depends on its data and
    must stay hidden. The reason is in this client's log, and in its facts if these stay on this machine. If clients
    send whole models, a failure raises.

    Args:
        context: the client's environment.
        task: its part in the round.
        trained: the model of an earlier exchange of the round; None: train now.
    """
    start = work_seconds()
    try:
        trained = trained or train_and_score(context, task)
        return _protected(context, task, trained)
    except Exception as error:
        reason = _log_failure(task, error)
    took = work_seconds() - start
    scoring = took if _scores(context, task) else 0.0  # a 0 would reveal that training failed
    spent = Facts(train_seconds=took, sensitivity_seconds=scoring) if trained is None else trained.facts
    return _zero_update(context, task, reason, spent)


def _log_failure(task: Task, error: Exception) -> str:
    """Log and return why a zero update is sent; if clients send whole models, raise the error."""
    if task.round.clip is None:
        raise error
    reason = str(error) if isinstance(error, SenseCryptError) else f"{type(error).__name__}: {error}"
    _LOG.warning("round %d, client %d: a zero update is sent, because: %s", task.round.number, task.client, reason)
    return reason


def _untrained(context: ClientContext, task: Task, reason: str, spent: Facts) -> Trained:
    """Return the result of failed training: the unchanged model."""
    failure = None if context.discreet else printable(reason)[:LONGEST_FAILURE]
    return Trained(task.vector, None, replace(spent, failure=failure))


def _zero_update(context: ClientContext, task: Task, reason: str, spent: Facts) -> Update:
    """Return a zero update, with as much encrypted as if training had succeeded."""
    unmoved = _untrained(context, task, reason, spent)
    if _decides_by_shared(context, task) or not context.config.policy.needs_gradient:
        with contextlib.suppress(SenseCryptError):
            return _protected(context, task, unmoved)
    everything = Mask.prefix(task.round.blocks, size=task.round.size, block=task.round.block, order=task.slots)
    return _protected(context, task, unmoved, Choice(everything))


def _protected(context: ClientContext, task: Task, trained: Trained, choice: Choice | None = None) -> Update:
    """Select what to encrypt unless `choice` is given, clip, encrypt, and return the update."""
    start = work_seconds()
    if choice is None:
        choice = context.config.policy.choose(_situation(context, task, trained))
    selecting = work_seconds() - start
    start = work_seconds()
    sent: Sent = trained.weights
    clipped = None
    if task.round.clip is not None:
        change, largest = trained.weights.astype(np.float64) - task.vector, model_format(task.round).largest
        statistics = context.config.server.statistics
        sent, clipped = clip_update(change, norm=task.round.clip, largest=largest, statistics=statistics)
    key, client = context.key, task.client
    protected = protect_model(
        sent, choice.mask, task.round, client=client, key=key, seed=task.tag_seed, blinded=context.blinded
    )
    protecting, cost = work_seconds() - start, protected.cost
    gains = _gains(context, task, trained, choice)
    reported, mi = gains, choice.mi
    if context.discreet:  # coverage and leakage from the cluster's shared sensitivities; without an order, no leakage
        clipped, reported = None, _shared_gains(task)
        mi = None if reported is None else mi
    facts = replace(
        grown(trained.facts, {"select_seconds": selecting}),
        clipped=clipped,
        protect_seconds=max(0.0, protecting - cost.total_seconds),
        encrypt_seconds=cost.seconds.get("encrypt", 0.0),
        encrypted_blocks=cost.blocks.get("encrypt", 0),
        ahead_seconds=cost.ahead_seconds,
        bytes_up=len(protected.upload),
        encrypted_share=choice.mask.share,
        coverage=choice.mask.share if reported is None else choice.mask.coverage(reported),
        mi=mi,
        budget=task.budget,
        decided_by=choice.decided_by,
        feasible=choice.feasible,
        layers=None if context.layers is None else encrypted_by_layer(choice.mask, context.layers),
    )
    refreshed = None
    if task.refresh is not None and gains is not None:
        start = work_seconds()
        refreshed = protect_sensitivity(gains, task.refresh[0], client=client, key=key, seed=task.refresh[1])
        facts = ordering_facts(facts, refreshed, work_seconds() - start)
    return Update(protected, refreshed, facts, choice.mask, sent)


def _require_finite(weights: Vector, layers: Mapping[str, int] | None) -> None:
    """Raise if training diverged, and name the first affected tensor if tensors have names."""
    wrong = np.flatnonzero(~np.isfinite(weights))
    if wrong.size:
        names = layers or {"the model": weights.size}
        tensor = next(name for name, end in zip(names, np.cumsum(list(names.values())), strict=True) if wrong[0] < end)
        problem = f"has {wrong.size:,} values that are not finite after training, the first in {tensor}"
        raise InvalidInput("model", problem, "lower the learning rate, or check this client's data")


def _scored_at(context: ClientContext, task: Task, trained: Vector) -> Vector:
    """Return the weights w at which this round's sensitivities |w·g(w)| are computed."""
    return task.vector if context.config.selection.gradient == "start" else trained


def _situation(context: ClientContext, task: Task, trained: Trained) -> Situation:
    config = context.config
    weights, gradient, gains = trained.weights, trained.gradient, None
    if gradient is not None and context.config.policy.propose is None:
        gains = sensitivity(_scored_at(context, task, weights), gradient).astype(np.float64)
    if _decides_by_shared(context, task):
        weights, gains = task.vector, _shared_gains(task)
    return Situation(
        weights=weights,
        gradient=gradient,
        sensitivity=gains,
        budget=task.budget,
        ratio=config.selection.ratio,
        block=task.round.block,
        order=task.slots,
        ranking=task.ranking,
        exposed=task.exposed,
        agreed=task.agreed,
        always=context.always,
        rng=np.random.default_rng(context.seed("choice", task.round.number, task.client)),
        B=config.selection.B,
        C=config.selection.C,
        max_mi=config.selection.max_mi if config.selection.max_mi >= 0 else None,
        objective=config.selection.objective,
        on_infeasible=config.selection.on_infeasible,
        bins=config.selection.bins,
        beta=config.selection.beta,
        normalise=config.selection.normalise,
    )


def _decides_by_shared(context: ClientContext, task: Task) -> bool:
    """Return whether the mask depends on the cluster's sensitivities; then equal budgets give equal prefixes."""
    return task.order is not None and context.config.policy.heeds_always


def _scores(context: ClientContext, task: Task) -> bool:
    """Return whether the round needs the client's own sensitivities, for its choice or for a new order."""
    return context.config.policy.needs_gradient and (task.refresh is not None or not _decides_by_shared(context, task))


def _shared_gains(task: Task) -> checks.FloatVector | None:
    """Return the cluster's mean sensitivity of every parameter; None: it has no order."""
    if task.order is None:
        return None
    return spread_over(task.order.sensitivities, task.order.order, task.round.block)


def _gains(context: ClientContext, task: Task, trained: Trained, choice: Choice) -> checks.FloatVector | None:
    """Return |w·g| for the coverage; if only the report needs it, its time is not counted."""
    gradient, scored = trained.gradient, _scored_at(context, task, trained.weights)
    if gradient is None:
        failed = _scores(context, task) or trained.weights is task.vector
        if failed:  # the cluster's shared sensitivities replace the client's own
            return _shared_gains(task)
        reported = not context.discreet or task.refresh is not None
        if choice.mask.blocks in (0, choice.mask.flags.size) or not reported:
            return None
        samples = context.config.selection.sensitivity_samples
        if context.recipe.by_difference:
            gradient = task.vector - trained.weights
        else:
            gradient, _ = gradient_of(context, task.client, scored, task.round.number, samples=samples)
    return sensitivity(scored, gradient).astype(np.float64)
