"""Before the first round: clients describe their data, are clustered, and rank their parameters together."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sensecrypt.algo.ordering import descending_order
from sensecrypt.algo.sketching import SEED_BYTES
from sensecrypt.engines.budgets import measures_bandwidth
from sensecrypt.engines.clock import SETUP, answer_bandwidth
from sensecrypt.engines.flatmap import save_map
from sensecrypt.engines.grouping import group_clients
from sensecrypt.engines.noise import noise_facts
from sensecrypt.engines.notes import grow
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.parties import RUN_NAME, Parties
from sensecrypt.engines.state import State
from sensecrypt.engines.work import Described, Done, Vector, describe_data, seal_ranking
from sensecrypt.engines.worktime import work_seconds
from sensecrypt.errors import SenseCryptError
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.envelope import seal
from sensecrypt.protocol.opened import Opened
from sensecrypt.protocol.round import Round

INDEX_BYTES = 4  # of a parameter's number, when an order is handed out


def set_up(parties: Parties, initial: Vector) -> tuple[State, list[Record]]:
    """Clusters, and their first orders; with the records of what it took."""
    clients = range(parties.config.clients)
    facts: dict[int, Record] = {client: {"bytes_up": 0, "bytes_down": initial.nbytes} for client in clients}
    labels, why = np.zeros(parties.config.clients, dtype=np.int64), "clustering is off"
    if parties.config.clustering != "none":
        described = _describe_all(parties, initial)
        rows = np.array([each.row for each in described])
        clusters = group_clients(rows, parties.config)
        labels, why = clusters.labels, clusters.why
        save_map(parties.folder, rows)
        for client, each in enumerate(described):
            grow(facts[client], {**each.facts, **noise_facts(parties.config, int(parties.samples[client]))})
            _measure(parties, client, each.facts, facts[client])
    count = int(labels.max()) + 1
    unmoved = np.zeros_like(initial)
    state = State(0, labels, why, [initial] * count, [unmoved] * count, [initial] * count, [None] * count)
    servers = []
    if parties.ordered or parties.policy.ranks_by == "jacobian":
        servers = [_first_ranking(parties, state, cluster, facts) for cluster in range(count)]
    told = [{"round": SETUP, "cluster": int(labels[client]), "client": client, **facts[client]} for client in clients]
    return state, [*told, *servers]


def sum_sensitivities(
    parties: Parties, round_: Round, done: Sequence[Done], server: Record, clients: dict[int, Record]
) -> Opened:
    """Sum encrypted scores; the key server may make an order of them, the aggregator learns nothing.

    Args:
        parties: all of them.
        round_: of purpose `sensitivity`.
        done: what the clients sealed.
        server: notes of aggregator and key server, to be added to.
        clients: notes of the clients, likewise: they receive the order, and open the sum where they share the key.
    """
    failures = [each.failure for each in done if each.failure]
    if failures and len(failures) == len(done):
        raise SenseCryptError(f"no client of cluster {round_.cluster} could take part: {failures[0]}")
    parties.keys.meter.take()
    start = work_seconds()
    total = RoundSum(round_, parties.keys.public)
    for each in done:
        if each.sensitivity is not None:
            total.add(each.sensitivity.upload, sender=each.client)
            parties.keys.server.take_receipt(each.sensitivity.receipt, round_, sender=each.client)
    message = total.close().to_bytes(round_)
    parties.charge(server, start, "aggregate_seconds")
    opening: Record = {}
    start = work_seconds()
    opened = parties.keys.server.open(message, round_, workers=parties.config.workers)
    if parties.ordered:
        parties.keys.server.set_order(round_, opened, first=parties.world.always)
    parties.charge(opening, start, "open_seconds")
    received = {"bytes_down": INDEX_BYTES * parties.size}
    if parties.config.key_mode == "shared-key":
        received = {**opening, "bytes_down": len(message)}
    else:
        grow(server, opening)
    for each in done:
        grow(clients[each.client], received)
    return opened


def _describe_all(parties: Parties, initial: Vector) -> list[Described]:
    """What the aggregator gets of everybody: sketches under its seed, turned by the key server; or Γ in the clear."""
    seed = secrets.token_bytes(SEED_BYTES) if parties.config.sensitivities == "sketch" else None
    calls = [(client, initial, seed) for client in range(parties.config.clients)]
    described: list[Described] = parties.workers.map(describe_data, calls)
    if seed is not None:
        described = [replace(each, row=parties.keys.server.turn(RUN_NAME, each.row)) for each in described]
    if parties.config.messages == "keep":
        for client, each in enumerate(described):
            parties.folder.keep_message(SETUP, f"description-{client}", seal("description", {}, {"row": each.row}))
    return described


def _measure(parties: Parties, client: int, answer: Record, record: Record) -> None:
    """Note how fast a client's first answer was, by its device's clock, if budgets are made of it."""
    if measures_bandwidth(parties.config) and "measured_bandwidth" not in record:
        record["measured_bandwidth"] = answer_bandwidth(answer, parties.config.devices(0)[client])


def _first_ranking(parties: Parties, state: State, cluster: int, facts: dict[int, Record]) -> Record:
    round_ = parties.describe(state.labels, cluster, 0, "sensitivity")
    seed = parties.keys.server.receipt_seed(round_)
    calls = [(client, state.vectors[cluster], round_, seed) for client in round_.weights]
    done: list[Done] = parties.workers.map(seal_ranking, calls)
    server: Record = {"round": SETUP, "cluster": cluster, "server": True}
    for each in done:
        grow(facts[each.client], each.facts or {})
        if each.facts is not None:
            _measure(parties, each.client, each.facts, facts[each.client])
    opened = sum_sensitivities(parties, round_, done, server, facts)
    if not parties.ordered:
        state.rankings[cluster], _ = descending_order(np.maximum(opened.values, 0).astype(np.float64))
    return server
