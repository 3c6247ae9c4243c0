"""A run on one machine: clients in worker processes, coordinator and key service in this one.

The loop is the coordinator's, as in a fleet. Models depend on the configuration alone: not on keys, masks, workers or
who arrives first.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client import jacobian
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.problem import Problem, always_of, configured_problem
from sensecrypt.client.training import warm_up
from sensecrypt.config import RunConfig
from sensecrypt.coordinator import run as coordinator
from sensecrypt.coordinator.budgets import measures_bandwidth
from sensecrypt.coordinator.ports import Patience
from sensecrypt.errors import InvalidInput
from sensecrypt.models import get_vector, named_arrays, statistics_count, vector_layout
from sensecrypt.policies.situation import blocks_of
from sensecrypt.profiles import get_profile
from sensecrypt.records import Record, clients_of, only_played
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel
from sensecrypt.simulation.profilechoice import resolve_profile
from sensecrypt.transports.local.keys import make_keys
from sensecrypt.transports.local.observer import LocalObserver
from sensecrypt.transports.local.result import Result
from sensecrypt.transports.local.transport import Intercept, LocalClients, LocalTransport, OnReply, Workers

RUN_NAME = "local"
OnRound = Callable[[int, float, float], None]
OnRecords = Callable[[int, list[Record], LocalObserver], bool]
_AT_ONCE = Patience(enrolment=0.0, deadline=0.0, pause=0.0)


def run_local(
    config: RunConfig,
    folder: RunFolder,
    *,
    problem: Problem | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_records: OnRecords | None = None,
    on_reply: OnReply = lambda *_: None,
    intercept: Intercept | None = None,
    cache: Path | None = None,
    cost_model: CostModel | None = None,
) -> Result:
    """Play a whole run.

    Args:
        config: what to do.
        folder: where records, checkpoints and models go.
        problem: what to learn; None: what the configuration names.
        resume: continue the run that is in `folder`.
        on_round: called after each round with its number, the mean accuracy and the mean encrypted share.
        on_records: called after each round with its number, its records and the observer; True stops the run.
        on_reply: called with the kind of a message and how many of how many clients have answered it.
        intercept: stands between clients and aggregator, for tests: returns the bytes that arrive, or None.
        cache: a folder for training results, shared by runs of the same problem.
        cost_model: what a ciphertext costs in a calibrated run; None: as measured at its start.
    """
    if not resume:
        folder.refuse_existing()
    if cache is not None and config.problem.dataset == "own":
        raise InvalidInput("cache", "is by the data set's name, and there is none", "use it with named data sets")
    what = problem or configured_problem(config)
    _refuse_impossible(config)
    with one_thread():  # before any computation: workers are forked from this process
        return _play(config, folder, what, resume, _Hooks(on_round, on_records, on_reply, intercept), cache, cost_model)


@dataclass(frozen=True, eq=False)
class _Hooks:
    """Who is called while a run is played: see `run_local`."""

    on_round: OnRound | None
    on_records: OnRecords | None
    on_reply: OnReply
    intercept: Intercept | None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Have PyTorch compute with one thread, so that the same numbers come out everywhere; afterwards as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _play(
    config: RunConfig,
    folder: RunFolder,
    what: Problem,
    resume: bool,
    hooks: _Hooks,
    cache: Path | None,
    cost_model: CostModel | None,
) -> Result:
    warm_up()
    if config.policy.ranks_by == "jacobian":
        jacobian.warm_up()
    initial = what.build()
    vector, classes, many = get_vector(initial), what.classes, statistics_count(initial)
    config = replace(config, server=replace(config.server, statistics=many))
    config, why_profile = resolve_profile(config, vector.size)
    _refuse_empty_masks(config, vector.size)
    known = (folder.load_cost_model() if resume else None) or cost_model  # one run, one calibration
    always = always_of(config, initial, classes)
    keys = make_keys(config, always, known)
    start = time.perf_counter()
    context = ClientContext(
        config,
        what.build,
        what.clients,
        keys.clients,
        cache,
        always,
        blinded=config.encryption.blinded,
        layers={name: math.prod(shape) for name, shape in vector_layout(initial)},
        recipe=what.recipe,
        weights=what.weights,
    )
    bound = clip_bound(config.training.clip, vector[: vector.size - many])
    clip = bound if config.training.uploads == "updates" else None
    if resume:
        _require_same_start(folder, vector)
    observer = LocalObserver(config, what, folder, keys.service, vector, clip)
    clients = LocalClients(RUN_NAME, context, vector, clip, folder.path / "clients")
    with folder.held(), Workers(clients, keys.service.client, config.machines.workers) as workers:
        if not resume:
            folder.create(config, why_profile=why_profile)  # only now: what could not even start leaves nothing behind
            folder.save_cost_model(keys.cost_model)
        transport = LocalTransport(
            workers,
            config,
            intercept=hooks.intercept,
            keep=folder.keep_message,
            cost_model=keys.cost_model,
            on_reply=hooks.on_reply,
        )
        _, state = coordinator.run(
            transport,
            keys.service,
            folder,
            config,
            name=RUN_NAME,
            patience=_AT_ONCE,
            observer=observer,
            volatile=keys.service,
            cost_model=keys.cost_model,
            on_round=lambda number, records: _report(hooks, observer, number, records),
        )
    vectors = [observer.model(cluster) for cluster in range(state.clusters)]
    for cluster in range(state.clusters):
        folder.save_model(cluster, named_arrays(observer.built(cluster)))
    hashes = [hashlib.sha256(each.tobytes()).hexdigest() for each in vectors]
    labels, seconds = state.labels.tolist(), time.perf_counter() - start
    accuracy, log = observer.accuracies(labels), only_played(folder.records())
    return Result(config, labels, accuracy, log, seconds, state.why, hashes, folder.why_profile, vectors, what.build)


def _report(hooks: _Hooks, observer: LocalObserver, number: int, records: list[Record]) -> bool:
    """Call the hooks after a round; returns whether the run stops."""
    if hooks.on_round is not None:
        clients = clients_of(records)
        shares = [record.encrypted_share for record in clients if record.encrypted_share is not None]
        accuracies = [math.nan if record.accuracy is None else record.accuracy for record in clients]
        known = [each for each in accuracies if not math.isnan(each)]
        accuracy = float(np.mean(known)) if known else math.nan
        hooks.on_round(number, accuracy, float(np.mean(shares)) if shares else 0.0)
    return hooks.on_records is not None and hooks.on_records(number, records, observer)


def _require_same_start(folder: RunFolder, initial: Vector) -> None:
    """Raise if the run in this folder started from another model."""
    checkpoint = folder.load_checkpoint()
    known = None if checkpoint is None else checkpoint[0].get("initial")
    if known is not None and known != hashlib.sha256(initial.tobytes()).hexdigest():
        fix = "pass the model as it was at the start of the run, such as from the same seed"
        raise InvalidInput("model", f"is not the one that the run in {folder.path} started from", fix)


def _refuse_impossible(config: RunConfig) -> None:
    """Raise for what could never run."""
    ordered = config.selection.layout == "prefix" and config.policy.ranks_by is not None
    if measures_bandwidth(config) and config.groups.clustering == "none" and not ordered:
        fix = "choose bandwidth declared, clustering auto, or layout prefix"
        raise InvalidInput("bandwidth", "is measured by an answer before the first round, and there is none", fix)


def _refuse_empty_masks(config: RunConfig, size: int) -> None:
    """Raise for a ratio that would encrypt nothing."""
    if config.policy.uses_ratio:
        block = min(get_profile(config.encryption.profile).slots, size)
        blocks_of(config.selection.ratio, -(-size // block), block)
