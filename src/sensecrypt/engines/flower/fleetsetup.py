"""Before the first round of a fleet: clients enrol, are clustered, and rank their parameters together."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from sensecrypt.config import RunConfig
from sensecrypt.engines.budgets import measures_bandwidth
from sensecrypt.engines.clock import SETUP
from sensecrypt.engines.flower.checkpoint import FleetState, begin_attempt
from sensecrypt.engines.flower.exchange import ask
from sensecrypt.engines.flower.fleetround import LOOK_SECONDS, MAX_ATTEMPTS, Aggregator, open_ranking, wait_for_quorum
from sensecrypt.engines.flower.messages import Assignment, Enrolment, facts_from_bytes
from sensecrypt.engines.flower.partedsum import PartedSum
from sensecrypt.engines.flower.roster import Roster
from sensecrypt.engines.flower.settings import Settings
from sensecrypt.engines.flower.wire import unpack
from sensecrypt.engines.grouping import group_clients
from sensecrypt.engines.noise import noise_facts
from sensecrypt.engines.notes import grow
from sensecrypt.engines.outcome import Record
from sensecrypt.errors import InvalidInput, Refused, Rejected, SenseCryptError
from sensecrypt.policies import get_policy
from sensecrypt.protocol.round import Round

_PAUSE = 2.0
_Start = tuple[int, str, float | None, int]  # what all clients must have alike
_SAME = "give all the same code, model and seed"
_LOG = logging.getLogger("sensecrypt.fleet")


def enrol_all(roster: Roster, settings: Settings, *, least: int) -> None:
    """Wait for all members, or as long as the settings say; go on with those who are there, if they are enough."""
    end = time.monotonic() + settings.enrol_seconds
    while True:
        roster.look(seconds=min(LOOK_SECONDS, max(1.0, end - time.monotonic())))
        missing = list(roster.missing())
        if not missing:
            return
        if time.monotonic() >= end:
            break
        time.sleep(_PAUSE)
    there = len(roster.enrolments)
    if there < max(2, least):
        fix = "start their SuperNodes, and look into the ServerApp's log for nodes that were refused"
        came = f"{there} client(s) came within {settings.enrol_seconds:.0f} s"
        refused = f" (the last was refused: {roster.last_refusal})" if roster.last_refusal else ""
        raise SenseCryptError(f"{came}, {max(2, least)} are needed{refused}; {fix}")
    _LOG.warning("clients %s are not there; the run starts without them", ", ".join(map(str, missing)))


def cluster_fleet(roster: Roster, settings: Settings, told: Mapping[int, int]) -> tuple[FleetState, RunConfig]:
    """Clusters of those who are there; and the configuration with the devices that they told.

    Args:
        roster: who is there.
        settings: of the run.
        told: how many samples each client told the key service that it has.
    """
    agreeing, (size, initial, clip, _) = _agreeing(roster)
    agreeing = {client: each for client, each in agreeing.items() if _has_told(roster, client, told)}
    count, config = settings.config.clients, settings.config
    labels, samples = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    here = np.array(list(agreeing))
    samples[here] = [told[client] for client in agreeing]
    labels[here], why, rows = 0, "clustering is off", np.zeros((count, 0))
    if config.clustering != "none":
        described = np.array([each.row for each in agreeing.values()])
        clusters = group_clients(described, config)
        labels[here], why = clusters.labels, clusters.why
        _LOG.info("%d cluster(s): %s", clusters.count, why)
        rows = np.zeros((count, described.shape[1]))
        rows[here] = described
    latest = np.full((int(labels.max()) + 1, 2), -1, dtype=np.int64)
    bandwidths = None
    if measures_bandwidth(config):
        bandwidths = np.full(count, np.nan)
        bandwidths[here] = [roster.bandwidths[client] for client in agreeing]
    state = FleetState(SETUP, why, size, initial, clip, labels, samples, rows, latest, bandwidths)
    return state, _with_devices(config, agreeing)


def _agreeing(roster: Roster) -> tuple[dict[int, Enrolment], _Start]:
    """The clients that start from one model, and what they share; one that differs cannot stop the others."""
    came = roster.enrolments
    start, often = Counter(_start(each) for each in came.values()).most_common(1)[0]
    others = sorted(client for client, each in came.items() if _start(each) != start)
    if 2 * often <= len(came):
        raise SenseCryptError(
            f"clients start from different models, {often} of {len(came)} at most from the same; {_SAME}"
        )
    for client in others:
        roster.refuse(client, f"client {client} starts from another model than most; {_SAME}")
    return {client: each for client, each in sorted(came.items()) if client not in others}, start


def _start(enrolment: Enrolment) -> _Start:
    return enrolment.size, enrolment.initial, enrolment.clip, enrolment.row.size


def _has_told(roster: Roster, client: int, told: Mapping[int, int]) -> bool:
    """Whether a client told the key service its samples, which no round can do without; else it is refused."""
    if client not in told:
        roster.refuse(client, f"client {client} has not told the key service how many samples it has")
    return client in told


def place_newcomers(roster: Roster, state: FleetState, told: Callable[[], Mapping[int, int]]) -> list[int]:
    """Put clients that came after the clusters were made into the one whose members' data are most like theirs.

    Args:
        roster: who is there.
        state: of the fleet.
        told: gives how many samples each client told the key service that it has; called if somebody is new.
    """
    placed = []
    for client, each in list(roster.enrolments.items()):
        if state.labels[client] >= 0:
            continue
        if _start(each) != (state.size, state.initial, state.clip, state.rows.shape[1]):
            roster.refuse(client, f"client {client} starts from another model than most; {_SAME}")
            continue
        samples = told()
        if not _has_told(roster, client, samples):
            continue
        centres = [state.rows[state.members(cluster)].mean(axis=0) for cluster in range(state.clusters)]
        nearest = int(np.argmin([np.linalg.norm(centre - each.row) for centre in centres]))
        state.labels[client], state.samples[client], state.rows[client] = nearest, samples[client], each.row
        if state.bandwidths is not None:
            state.bandwidths[client] = roster.bandwidths[client]
        placed.append(client)
    return placed


def first_orders(aggregator: Aggregator, state: FleetState) -> list[Record]:
    """Let every cluster's members rank the initial model's parameters, if the run has orders; the set-up's records."""
    state.next_round = 0
    config = aggregator.config
    facts = {client: {"bytes_up": 0, "bytes_down": 0, **told} for client, told in aggregator.roster.facts.items()}
    for client, record in facts.items():
        if state.labels[client] >= 0:
            record |= noise_facts(config, int(state.samples[client]))
        if client in state.measured:
            record["measured_bandwidth"] = state.measured[client]
    servers: list[Record] = []
    if config.layout == "prefix" and get_policy(config.policy).ranks_by is not None:
        servers = _rank(aggregator, state, facts)
    clients = [client for client in sorted(facts) if state.labels[client] >= 0]
    told = [
        {"round": SETUP, "cluster": int(state.labels[client]), "client": client, **facts[client]} for client in clients
    ]
    return [*told, *servers]


def _rank(aggregator: Aggregator, state: FleetState, facts: dict[int, Record]) -> list[Record]:
    left, reason = set(range(state.clusters)), ""
    servers: list[Record] = []
    for _ in range(MAX_ATTEMPTS):
        attempt = begin_attempt(aggregator.folder, SETUP)
        rounds = {}
        for cluster in sorted(left):
            round_ = aggregator.describe(state, cluster, 0, "sensitivity", attempt)
            try:
                aggregator.dkms.register_round(round_)
                rounds[cluster] = round_
            except Refused as error:
                if error.code != "already-decrypted":  # by a ServerApp that was ended: the order is there
                    raise
                left.discard(cluster)
        if not left:
            return servers
        totals = _collect(aggregator, state, rounds, attempt, facts)
        for cluster, total in totals.items():
            start = time.perf_counter()
            try:
                open_ranking(aggregator, total)
                left.discard(cluster)
            except (Rejected, Refused, InvalidInput) as error:
                reason = str(error)
                _LOG.warning("cluster %d has no order yet: %s", cluster, reason)
            took = {"open_seconds": time.perf_counter() - start}
            servers.append({"round": SETUP, "cluster": cluster, "server": True, **took})
        if not left:
            return servers
    raise SenseCryptError(f"no order of the parameters in {MAX_ATTEMPTS} attempts: {reason}; fix it and resume the run")


def dismiss_found(aggregator: Aggregator, state: FleetState) -> bool:
    """Clients without whom alone sums match are members no longer; whether there were any."""
    found = [client for client in sorted(aggregator.suspicion.found) if state.labels[client] >= 0]
    for client in found:
        aggregator.roster.dismiss(
            client, f"client {client} is left out from now on: sums match their receipts only without it"
        )
        state.labels[client] = -1
    return bool(found)


def _collect(
    aggregator: Aggregator, state: FleetState, rounds: dict[int, Round], attempt: int, facts: dict[int, Record]
) -> dict[int, PartedSum]:
    asked = {cluster: aggregator.invite(round_) for cluster, round_ in rounds.items()}
    whole = aggregator.rules.fixed_groups
    totals = {
        cluster: PartedSum(rounds[cluster], aggregator.public, parts, whole=whole)
        for cluster, (_, parts) in asked.items()
    }
    nodes = wait_for_quorum(aggregator, [(rounds[cluster], invited) for cluster, (invited, _) in asked.items()])
    clients = {nodes[client]: client for invited, _ in asked.values() for client in invited if client in nodes}
    requests = {
        node: {"assignment": Assignment(int(state.labels[client]), 0, attempt, 1.0, None, refresh=False).to_bytes()}
        for node, client in clients.items()
    }
    for reply in ask(aggregator.grid, "train.rank", requests, seconds=aggregator.settings.deadline):
        client = clients[reply.node]
        try:
            parts = unpack(reply.content, needed={"sensitivity", "facts"})
            told = facts_from_bytes(parts["facts"], "rank")
            if client not in aggregator.dkms.receipts(rounds[int(state.labels[client])]):
                raise Rejected("sensitivities for which the key service has no receipt")
            totals[int(state.labels[client])].add(parts["sensitivity"], sender=client)
            grow(facts.setdefault(client, {}), told)
        except Rejected as error:
            _LOG.warning("client %d does not rank: %s", client, error)
    return totals


def _with_devices(config: RunConfig, enrolments: dict[int, Enrolment]) -> RunConfig:
    """The configuration with the devices that clients told; the others keep theirs."""
    if all(each.cpus is None and each.bandwidth is None for each in enrolments.values()):
        return config
    devices = config.devices(0)
    cpus, bandwidths = [device.cpus for device in devices], [device.bandwidth for device in devices]
    for client, each in enrolments.items():
        cpus[client] = cpus[client] if each.cpus is None else each.cpus
        bandwidths[client] = bandwidths[client] if each.bandwidth is None else each.bandwidth
    return replace(config, cpus=(tuple(cpus),), bandwidths=(tuple(bandwidths),))
