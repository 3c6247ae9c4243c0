"""A run on one machine: clients in worker processes, coordinator and key service in this one.

The loop is the coordinator's, as in a fleet. Models depend on the configuration alone: not on keys, masks, workers or
who arrives first.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client import jacobian
from sensecrypt.client.context import ClientContext
from sensecrypt.client.problem import Problem, always_of, configured_problem
from sensecrypt.client.training import warm_up
from sensecrypt.config import RunConfig
from sensecrypt.coordinator import run as coordinator
from sensecrypt.coordinator.budgets import measures_bandwidth
from sensecrypt.coordinator.ports import Patience
from sensecrypt.errors import InvalidInput
from sensecrypt.models import get_vector, layout
from sensecrypt.policies import get_policy
from sensecrypt.policies.situation import blocks_of
from sensecrypt.profiles import get_profile
from sensecrypt.records import Record, clients_of, only_played
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel
from sensecrypt.simulation.profilechoice import resolve_profile
from sensecrypt.transports.local.keys import make_keys
from sensecrypt.transports.local.observer import LocalObserver
from sensecrypt.transports.local.result import Result
from sensecrypt.transports.local.transport import Intercept, LocalClients, LocalTransport, Workers

RUN_NAME = "local"
OnRound = Callable[[int, float, float], None]
_AT_ONCE = Patience(enrolment=0.0, deadline=0.0, pause=0.0)


def run_local(
    config: RunConfig,
    folder: RunFolder,
    *,
    problem: Problem | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    intercept: Intercept | None = None,
    memo: Path | None = None,
    cost_model: CostModel | None = None,
) -> Result:
    """Play a whole run.

    Args:
        config: what to do.
        folder: where records, checkpoints and models go.
        problem: what to learn; None: what the configuration names.
        resume: continue the run that is in `folder`.
        on_round: called after each round with its number, the mean accuracy and the mean encrypted share.
        intercept: stands between clients and aggregator, for tests: returns the bytes that arrive, or None.
        memo: a folder where training results are kept, shared by runs of the same problem.
        cost_model: what a ciphertext costs in a calibrated run; None: as measured at its start.
    """
    if not resume:
        folder.refuse_existing()
    if memo is not None and config.problem.dataset == "own":
        raise InvalidInput("memo", "tells problems apart by their data set's name", "use it with named data sets")
    what = problem or configured_problem(config)
    _refuse_impossible(config)
    torch.set_num_threads(1)  # before any computation: workers are forked from this process
    warm_up()
    if get_policy(config.selection.policy).ranks_by == "jacobian":
        jacobian.warm_up()
    initial = what.build()
    vector, classes = get_vector(initial), what.classes
    config, why_profile = resolve_profile(config, vector.size)
    _refuse_empty_masks(config, vector.size)
    known = (folder.load_cost_model() if resume else None) or cost_model  # one run, one calibration
    always = always_of(config, initial, classes)
    keys = make_keys(config, always, known)
    start = time.perf_counter()
    context = ClientContext(
        config,
        what.build,
        dict(enumerate(what.clients)),
        keys.clients,
        memo,
        always,
        blinded=config.encryption.blinded,
        layers={name: math.prod(shape) for name, shape in layout(initial)},
    )
    clip = clip_bound(config.training.clip, vector) if config.training.uploads == "updates" else None
    observer = LocalObserver(config, what, folder, keys.service, vector, clip)
    clients = LocalClients(RUN_NAME, context, vector, clip, folder.path / "clients")
    with folder.held(), Workers(clients, keys.service.client, config.machines.workers) as workers:
        if not resume:
            folder.create(config, why_profile=why_profile)  # only now: what could not even start leaves nothing behind
            folder.save_cost_model(keys.cost_model)
        transport = LocalTransport(
            workers, config, intercept=intercept, keep=folder.keep_message, cost_model=keys.cost_model
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
            on_round=None if on_round is None else _summarised(on_round),
        )
    vectors = [observer.model(cluster) for cluster in range(state.clusters)]
    folder.save_models(vectors, layout(initial))
    hashes = [hashlib.sha256(each.tobytes()).hexdigest() for each in vectors]
    labels, seconds = state.labels.tolist(), time.perf_counter() - start
    accuracy, log = observer.accuracies(labels), only_played(folder.records())
    return Result(config, labels, accuracy, log, seconds, state.why, hashes, folder.why_profile, vectors, what.build)


def _summarised(on_round: OnRound) -> Callable[[int, list[Record]], None]:
    def told(number: int, records: list[Record]) -> None:
        clients = clients_of(records)
        shares = [record.encrypted_share for record in clients if record.encrypted_share is not None]
        accuracies = [math.nan if record.accuracy is None else record.accuracy for record in clients]
        on_round(number, float(np.nanmean(accuracies)), float(np.mean(shares)) if shares else 0.0)

    return told


def _refuse_impossible(config: RunConfig) -> None:
    """Raise for what could never run."""
    ordered = config.selection.layout == "prefix" and get_policy(config.selection.policy).ranks_by is not None
    if measures_bandwidth(config) and config.groups.clustering == "none" and not ordered:
        fix = "choose bandwidth declared, clustering auto, or layout prefix"
        raise InvalidInput("bandwidth", "is measured by an answer before the first round, and there is none", fix)


def _refuse_empty_masks(config: RunConfig, size: int) -> None:
    """Raise for a ratio that would encrypt nothing."""
    if get_policy(config.selection.policy).uses_ratio:
        block = min(get_profile(config.encryption.profile).slots, size)
        blocks_of(config.selection.ratio, -(-size // block), block)
