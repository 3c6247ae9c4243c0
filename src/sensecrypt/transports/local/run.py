"""A run on one machine: clients in worker processes, coordinator and key service in the main process.

The coordinator's loop is the same as in a fleet. Models depend only on the configuration, not on keys, masks, workers
or the order of arrival.
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
    """Play a run on this machine, and return its result.

    Args:
        config: the configuration.
        folder: the folder of records, checkpoints and models.
        problem: the learning problem; None: the one that the configuration names.
        resume: continue the run in `folder`.
        on_round: called after each round with its number, the mean accuracy and the mean encrypted share.
        on_records: called after each round with its number, its records and the observer; True stops the run.
        on_reply: called after each reply with the kind of message, the number of replies and the number of clients.
        intercept: for tests: receives client, round and upload, and returns the bytes that arrive, or None.
        cache: a folder of training results, shared by runs of the same problem.
        cost_model: seconds per ciphertext in a calibrated run; None: measured at its start.
    """
    if not resume:
        folder.refuse_existing()
    if cache is not None and config.problem.dataset == "own":
        raise InvalidInput("cache", "needs a named data set", "use it with named data sets, or leave it out")
    what = problem or configured_problem(config)
    _refuse_impossible(config)
    with one_thread():  # before any computation: workers are forked from this process
        return _play(config, folder, what, resume, _Hooks(on_round, on_records, on_reply, intercept), cache, cost_model)


@dataclass(frozen=True, eq=False)
class _Hooks:
    """The functions that are called during a run: see `run_local`."""

    on_round: OnRound | None
    on_records: OnRecords | None
    on_reply: OnReply
    intercept: Intercept | None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Make PyTorch use one thread, so that results are the same on every machine; restore the number afterwards."""
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
    known = (folder.load_cost_model() if resume else None) or cost_model  # a run is calibrated once
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
            folder.create(config, why_profile=why_profile)  # only now, so that a run that cannot start leaves no files
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
    """Call the hooks after a round, and return whether the run stops."""
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
        fix = "pass the same initial model, for example from the same seed"
        raise InvalidInput("model", f"is not the initial model of the run in {folder.path}", fix)


def _refuse_impossible(config: RunConfig) -> None:
    """Raise for settings that cannot work together."""
    ordered = config.selection.layout == "prefix" and config.policy.ranks_by is not None
    if measures_bandwidth(config) and config.groups.clustering == "none" and not ordered:
        fix = "choose bandwidth declared, clustering auto, or layout prefix"
        raise InvalidInput("bandwidth", "is measured by an answer before the first round, but there is none", fix)


def _refuse_empty_masks(config: RunConfig, size: int) -> None:
    """Raise if the ratio would encrypt nothing."""
    if config.policy.uses_ratio:
        block = min(get_profile(config.encryption.profile).slots, size)
        blocks_of(config.selection.ratio, -(-size // block), block)
