"""Setup before the first round: clients enrol, are clustered, and rank their parameters."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from sensecrypt.algo.clustering import cluster_clients as cluster_rows
from sensecrypt.algo.merging import Matrix
from sensecrypt.config import RunConfig, change
from sensecrypt.coordinator.budgets import measures_bandwidth
from sensecrypt.coordinator.checkpoint import RunState, begin_attempt
from sensecrypt.coordinator.coordination import Coordination, Registry
from sensecrypt.coordinator.ports import Observer, Patience
from sensecrypt.coordinator.rounds import MAX_ATTEMPTS, VALUE_BYTES, release_order, wait_for_quorum
from sensecrypt.coordinator.sums import PartedSum
from sensecrypt.errors import InvalidInput, Refused, Rejected, SenseCryptError
from sensecrypt.protocol.requests import Assignment, Enrolment, facts_from_bytes, require_parts
from sensecrypt.records import SETUP, ClientRecord, ClusterRecords, Record, ServerRecord, grown, to_fields
from sensecrypt.rng import derive_rng
from sensecrypt.runs.noise import noise_facts
from sensecrypt.types import Clusters, Device


def group_clients(rows: Matrix, config: RunConfig) -> Clusters:
    """Return the clusters of the enrolled clients; raise if one is too small for the key server to decrypt its sums.

    Args:
        rows: the vector of each client.
        config: the run's configuration; its clustering is not `none`.
    """
    if config.groups.clustering == "none":
        raise InvalidInput("clustering", "is none", "choose auto, ap or k-means")
    k = min(config.groups.clusters, len(rows)) or None
    clusters = cluster_rows(
        rows,
        random_state=derive_rng(config.problem.seed, "clustering"),
        min_size=max(2, config.release.min_contributors),
        method=config.groups.clustering,
        k=k if config.groups.clustering == "k-means" else None,
    )
    sizes = np.bincount(clusters.labels)
    least = min(config.release.min_contributors, len(rows)) if config.encryption.key_mode == "dkms" else 1
    if sizes.min() < least:
        small = f"{int((sizes < least).sum())} of {sizes.size} clusters have fewer than {least} clients"
        problem = (
            f"{config.groups.clustering}: {small} (min_contributors), and the key server never decrypts their sums"
        )
        raise InvalidInput("clustering", problem, "choose auto, fewer min_contributors, or key_mode shared-key")
    return clusters


_Start = tuple[int, str, float | None, int]  # equal for all clients
_SAME = "give all clients the same code, model and seed"
_LOG = logging.getLogger("sensecrypt.coordinator")


def enrol_all(registry: Registry, patience: Patience, *, least: int) -> None:
    """Wait for all members to enrol; after the time limit, continue if enough have enrolled."""
    end = time.monotonic() + patience.enrolment
    while True:
        registry.look(seconds=min(patience.proof, max(1.0, end - time.monotonic())))
        missing = registry.missing()
        if not missing:
            return
        if time.monotonic() >= end:
            break
        time.sleep(patience.pause)
    enrolled = len(registry.enrolments)
    if enrolled < max(2, least):
        fix = "start them, and check the coordinator's log for clients that were refused"
        came = f"{enrolled} client(s) enrolled within {patience.enrolment:.0f} s"
        refused = f" (the last refusal: {registry.last_refusal})" if registry.last_refusal else ""
        raise SenseCryptError(f"{came}, but {max(2, least)} are needed{refused}; {fix}")
    _LOG.warning("clients %s did not enrol; the run starts without them", ", ".join(map(str, missing)))


def cluster_clients(
    registry: Registry, config: RunConfig, samples_of: Mapping[int, int], observer: Observer
) -> tuple[RunState, RunConfig]:
    """Return the clusters of the enrolled clients, and the configuration with the devices that they reported.

    Args:
        registry: the enrolled clients.
        config: the run's configuration.
        samples_of: the number of samples that each client reported to the key service.
        observer: is called with the clients' vectors.
    """
    agreeing, (size, initial, clip, _) = _agreeing(registry)
    agreeing = {client: each for client, each in agreeing.items() if _has_reported(registry, client, samples_of)}
    count = config.problem.clients
    labels, samples = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    here = np.array(list(agreeing))
    samples[here] = [samples_of[client] for client in agreeing]
    labels[here], why, rows = 0, "clustering is off", np.zeros((count, 0))
    if config.groups.clustering != "none":
        described = np.array([each.row for each in agreeing.values()])
        clusters = group_clients(described, config)
        labels[here], why = clusters.labels, clusters.why
        _LOG.info("%d cluster(s): %s", clusters.count, why)
        rows = np.zeros((count, described.shape[1]))
        rows[here] = described
        observer.described({client: each.row for client, each in agreeing.items()})
    latest = np.full((int(labels.max()) + 1, 2), -1, dtype=np.int64)
    bandwidths = None
    if measures_bandwidth(config):
        bandwidths = np.full(count, np.nan)
        bandwidths[here] = [registry.bandwidths.get(client, np.nan) for client in agreeing]
    state = RunState(SETUP, why, size, initial, clip, labels, samples, rows, latest, bandwidths)
    return state, _with_devices(config, agreeing)


def _agreeing(registry: Registry) -> tuple[dict[int, Enrolment], _Start]:
    """Return the clients with the most common initial model, and its description; refuse the other clients."""
    came = registry.enrolments
    start, often = Counter(_start(each) for each in came.values()).most_common(1)[0]
    others = sorted(client for client, each in came.items() if _start(each) != start)
    if 2 * often <= len(came):
        raise SenseCryptError(
            f"clients start from different models, at most {often} of {len(came)} from the same; {_SAME}"
        )
    for client in others:
        registry.refuse(client, f"client {client} starts from another model than most clients; {_SAME}")
    return {client: each for client, each in sorted(came.items()) if client not in others}, start


def _start(enrolment: Enrolment) -> _Start:
    return enrolment.size, enrolment.initial, enrolment.clip, enrolment.row.size


def _has_reported(registry: Registry, client: int, samples: Mapping[int, int]) -> bool:
    """Return whether a client reported its number of samples, which every round needs; if not, refuse it."""
    if client not in samples:
        registry.refuse(client, f"client {client} has not reported its number of samples to the key service")
    return client in samples


def place_newcomers(registry: Registry, state: RunState, samples_of: Callable[[], Mapping[int, int]]) -> list[int]:
    """Assign clients that enrolled late to the cluster with the nearest mean vector, and return them.

    Args:
        registry: the enrolled clients.
        state: the run's state.
        samples_of: returns the number of samples that each client reported to the key service.
    """
    placed = []
    for client, each in list(registry.enrolments.items()):
        if state.labels[client] >= 0:
            continue
        if _start(each) != (state.size, state.initial, state.clip, state.rows.shape[1]):
            registry.refuse(client, f"client {client} starts from another model than most clients; {_SAME}")
            continue
        samples = samples_of()
        if not _has_reported(registry, client, samples):
            continue
        centres = [state.rows[state.members(cluster)].mean(axis=0) for cluster in range(state.clusters)]
        nearest = int(np.argmin([np.linalg.norm(centre - each.row) for centre in centres]))
        state.labels[client], state.samples[client], state.rows[client] = nearest, samples[client], each.row
        if state.bandwidths is not None:
            state.bandwidths[client] = registry.bandwidths.get(client, np.nan)
        placed.append(client)
    return placed


def first_orders(run: Coordination, state: RunState) -> list[Record]:
    """Have every cluster rank the initial model's parameters, if the run needs it, and return the records of setup."""
    state.next_round = 0
    records = {
        cluster: ClusterRecords(ServerRecord(round=SETUP, cluster=cluster), {}) for cluster in range(state.clusters)
    }
    for client, facts in sorted(run.registry.facts.items()):
        cluster = int(state.labels[client])
        if cluster >= 0:
            noise = noise_facts(run.config, int(state.samples[client]))
            record = ClientRecord(round=SETUP, cluster=cluster, client=client, **noise)
            known = {"bytes_up": 0, "bytes_down": VALUE_BYTES * state.size, **to_fields(facts)}
            records[cluster].clients[client] = replace(record, **known)
    ranks = run.ordered or run.config.policy.ranks_by == "jacobian"
    if ranks:
        _rank(run, state, records)
    for client, bandwidth in run.registry.bandwidths.items():
        if state.bandwidths is not None and np.isnan(state.bandwidths[client]):
            state.bandwidths[client] = bandwidth
    clients = {client: record for own in records.values() for client, record in own.clients.items()}
    measured = state.measured
    return [
        *(replace(record, measured_bandwidth=measured.get(client)) for client, record in sorted(clients.items())),
        *(own.server for own in records.values() if ranks),
    ]


def _rank(run: Coordination, state: RunState, records: dict[int, ClusterRecords]) -> None:
    left, reason = set(range(state.clusters)), ""
    for _ in range(MAX_ATTEMPTS):
        attempt = begin_attempt(run.folder, SETUP)
        sums, asked = dict[int, PartedSum](), dict[int, set[int]]()
        for cluster in sorted(left):
            round_ = run.describe(state, cluster, 0, "sensitivity", attempt)
            try:
                run.keyservice.register_round(round_)
                asked[cluster], sums[cluster] = run.invite(round_)
            except Refused as error:
                if error.code != "already-decrypted":  # then an earlier process released it, and the order exists
                    raise
                left.discard(cluster)
        failures = _collect_rankings(run, sums, asked, records)
        for cluster, total in sums.items():
            try:
                release_order(run, total, records[cluster])
                left.discard(cluster)
            except (Rejected, Refused, InvalidInput) as error:
                reason = f"{error}{failures.get(cluster, '')}"
                _LOG.warning("cluster %d has no order yet: %s", cluster, reason)
        if not left:
            return
    raise SenseCryptError(f"no order of the parameters in {MAX_ATTEMPTS} attempts: {reason}; fix it and --resume")


def _collect_rankings(
    run: Coordination, sums: dict[int, PartedSum], asked: dict[int, set[int]], records: dict[int, ClusterRecords]
) -> dict[int, str]:
    """Add the clients' uploads; return for each cluster the first client that failed, with the reason."""
    failures: dict[int, str] = {}
    present = wait_for_quorum(run, [(total.round, asked[cluster]) for cluster, total in sums.items()])
    clusters = {client: cluster for cluster, invited in asked.items() for client in sorted(invited & present)}
    requests = {}
    for client, cluster in clusters.items():
        assignment = Assignment(cluster, 0, sums[cluster].round.attempt, 1.0, None, refresh=False)
        requests[client] = {"assignment": assignment.to_bytes()}
    for reply in run.transport.ask("rank", requests, seconds=run.patience.deadline):
        client, cluster = reply.client, clusters[reply.client]
        try:
            parts = require_parts(reply.content, needed={"sensitivity", "facts"})
            facts = facts_from_bytes(parts["facts"], "rank")
            sums[cluster].add(parts["sensitivity"], sender=client)
            run.registry.measure(reply)
            clients = records[cluster].clients
            if client in clients:
                clients[client] = grown(clients[client], facts)
        except Rejected as error:
            failures.setdefault(cluster, f" (client {client}: {error})")
            _LOG.warning("client %d does not rank: %s", client, error)
    return failures


def exclude_found(run: Coordination, state: RunState) -> bool:
    """Exclude the clients whose tags do not match, and return whether there are any."""
    found = [client for client in sorted(run.exclusion.found) if state.labels[client] >= 0]
    for client in found:
        run.registry.exclude(client, f"client {client} is excluded: sums match their tags only without it")
        state.labels[client] = -1
    return bool(found)


def _with_devices(config: RunConfig, enrolments: dict[int, Enrolment]) -> RunConfig:
    """Return the configuration with the devices that clients reported; the other clients keep theirs."""
    if all(each.cpus is None and each.bandwidth is None for each in enrolments.values()):
        return config
    devices = config.devices(0)
    if config.machines.devices:  # a client that reports its processors is not one of the named devices
        devices = [Device(device.speed, device.bandwidth) for device in devices]
    for client, each in enrolments.items():
        known = devices[client]
        devices[client] = replace(known, cpus=each.cpus or known.cpus, bandwidth=each.bandwidth or known.bandwidth)
    numbers = {"cpus": [each.cpus for each in devices], "ghz": [each.ghz for each in devices]}
    return change(config, {**numbers, "bandwidths": [each.bandwidth for each in devices]})
