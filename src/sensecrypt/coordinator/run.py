"""The loop of every run: enrol, cluster, order, rounds. It has no secret key, and sees no model.

`run` works with any transport and key service, and sees only what an aggregator may see.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.config import RunConfig, change
from sensecrypt.coordinator.budgets import Budgets
from sensecrypt.coordinator.checkpoint import RunState, forget_closed, load_state, sketch_seed
from sensecrypt.coordinator.coordination import Coordination, Registry
from sensecrypt.coordinator.enrolment import cluster_clients, enrol_all, exclude_found, first_orders, place_newcomers
from sensecrypt.coordinator.ports import Observer, Patience, Transport
from sensecrypt.coordinator.rounds import play_round
from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.port import AggregatorKeyService, VolatileKeyService
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.records import SETUP, ClientRecord, Record, ServerRecord, clients_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel

_LOG = logging.getLogger("sensecrypt.coordinator")
OnRound = Callable[[int, list[Record]], bool | None]


def run(
    transport: Transport,
    keyservice: AggregatorKeyService,
    folder: RunFolder,
    config: RunConfig,
    *,
    name: str,
    patience: Patience,
    observer: Observer | None = None,
    volatile: VolatileKeyService | None = None,
    cost_model: CostModel | None = None,
    on_round: OnRound | None = None,
) -> tuple[Coordination, RunState]:
    """Play a run, or continue the run in `folder`; return the coordination and the final state.

    Args:
        transport: the transport to the clients.
        keyservice: the key service, which decrypts sums.
        folder: the folder of records and checkpoints.
        config: the run's configuration.
        name: the run's name at the key service.
        patience: how long to wait for clients.
        observer: is called with what passes the coordinator.
        volatile: the key service, if it ends with this process. The checkpoint then contains its state, and choices
            that are random in a fleet depend on the run's seed.
        cost_model: seconds per ciphertext in a calibrated run; None: use the measured times.
        on_round: called after each round with its number and records; if it returns True, the run stops.
    """
    rules = _require_registered(keyservice.run(name), config, name)
    coordination = Coordination(
        name=name,
        config=config,
        transport=transport,
        keyservice=keyservice,
        public=keyservice.public_key(name),
        folder=folder,
        registry=Registry(transport, range(config.problem.clients), sketch_seed(folder)),
        registered=rules,
        patience=patience,
        observer=observer or Observer(),
        durable=volatile is None,
        seeded=volatile is not None,
        cost_model=cost_model,
    )
    state = _begin_or_resume(coordination, volatile)
    coordination = replace(coordination, config=change(folder.read_config(), {"rounds": config.training.rounds}))
    if state.next_round == SETUP:
        records = first_orders(coordination, state)
        exclude_found(coordination, state)
        _end_round(coordination, state, records, volatile)
    budgets, excluded = _budgets(coordination, state), False
    for number in range(state.next_round, config.training.rounds):
        coordination.registry.look(seconds=patience.proof)
        if place_newcomers(coordination.registry, state, lambda: keyservice.samples(name)) or excluded:
            budgets = _budgets(coordination, state)
        records = play_round(coordination, state, number, budgets.of_round(number))
        state.next_round = number + 1
        excluded = exclude_found(coordination, state)
        _end_round(coordination, state, records, volatile)
        budgets.learn(records)
        clients, rounds = clients_of(records), config.training.rounds
        shares = [each.encrypted_share for each in clients if each.counts and each.encrypted_share is not None]
        share = 100 * float(np.mean(shares)) if shares else 0.0
        arrived = f"{len(shares)} of {len(clients)} clients, {share:.0f}% encrypted"
        _LOG.info("round %d of %d is done: %s", number + 1, rounds, arrived)
        if on_round is not None and on_round(number, records):
            break
    return coordination, state


def _require_registered(described: Mapping[str, Any], config: RunConfig, name: str) -> ReleaseRules:
    """Return the release rules of a run; raise `InvalidInput` if it is not registered as configured."""
    names, rules = (
        described["names"],
        ReleaseRules(**{each.name: described[each.name] for each in fields(ReleaseRules)}),
    )
    if sorted(map(int, names)) != list(range(config.problem.clients)):
        problem = f"is {config.problem.clients}, but the key service knows {len(names)} members of run {name}"
        raise InvalidInput("clients", problem, "register the run with the same number of clients, numbered from 0")
    if described["server"] != asdict(config.server.rule):
        problem = f"is {config.server.rule}, but the run is registered with {ServerRule(**described['server'])}"
        raise InvalidInput("server", problem, "register and submit the run with the same settings")
    if rules.fixed_groups and config.release.sample:
        problem = "selects other members every round, but the key service releases only sums of fixed groups"
        raise InvalidInput("sample", problem, "leave sample out, or have the service's policy changed")
    return rules


def _begin_or_resume(run: Coordination, volatile: VolatileKeyService | None) -> RunState:
    """Enrol clients, and return the state after the last complete round, or that of a new run with its clusters."""
    loaded = load_state(run.folder)
    if loaded is not None:
        run.registry.excluded |= loaded[0].excluded
    enrol_all(run.registry, run.patience, least=run.config.release.min_contributors)
    if loaded is not None:
        state, kept = loaded
        if volatile is not None:
            _restore(volatile, kept, run, state)
        return state
    state, config = cluster_clients(run.registry, run.config, run.keyservice.samples(run.name), run.observer)
    if not run.folder.exists():
        run.folder.create(config)
    state.save(run.folder, None if volatile is None else volatile.state())
    return state


def _budgets(coordination: Coordination, state: RunState) -> Budgets:
    """Return the budgets of the current clusters, from all records so far."""
    budgets = Budgets(coordination.config, state.labels, state.size, state.measured)
    budgets.learn(coordination.folder.records())
    return budgets


def _end_round(
    coordination: Coordination, state: RunState, records: list[Record], volatile: VolatileKeyService | None
) -> None:
    """Write records and checkpoint: a coordinator that ends afterwards continues after this round."""
    folder, number = coordination.folder, state.next_round - 1
    if coordination.cost_model is not None:
        apply = coordination.cost_model.apply
        played = (ClientRecord, ServerRecord)
        records[:] = [apply(record) if isinstance(record, played) else record for record in records]
    coordination.observer.end_of_round(number, state.labels.tolist(), records)
    folder.append([*records, *(replace(each, round=number) for each in coordination.registry.take_refusals())])
    state.save(folder, None if volatile is None else volatile.state())
    forget_closed(folder)


def _restore(
    volatile: VolatileKeyService, kept: Mapping[str, npt.NDArray[Any]], run: Coordination, state: RunState
) -> None:
    """Restore a key service in this process to its state after the last complete round."""
    forget_closed(run.folder)  # their tags are lost, so an incomplete round is repeated
    latest = {}
    for cluster in range(state.clusters):
        start = state.start(cluster)
        if start is not None:
            latest[cluster] = run.describe(state, cluster, start[0], "model", start[1], members=state.members(cluster))
    samples = {client: int(count) for client, count in enumerate(state.samples) if count}
    volatile.restore(run.name, kept, latest, samples)
