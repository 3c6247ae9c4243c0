"""One round at the coordinator: all clusters in parallel, with sums released by the key service.

If a cluster's round fails (too few uploads, or a sum that does not verify), it is repeated with a new attempt number.
Finished clusters are not repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sensecrypt import checks
from sensecrypt.coordinator.checkpoint import ClosedSum, RunState, begin_attempt, forget_closed, load_closed
from sensecrypt.coordinator.clusterround import ClusterRound, agree_on_masks, with_cost
from sensecrypt.coordinator.coordination import Coordination
from sensecrypt.coordinator.sums import MISMATCH, PartedSum
from sensecrypt.errors import InvalidInput, Refused, Rejected, SenseCryptError
from sensecrypt.protocol.answers import order_bytes
from sensecrypt.protocol.requests import Assignment
from sensecrypt.protocol.round import Round
from sensecrypt.records import ClientRecord, ClusterRecords, Evaluation, Record, ServerRecord, grown
from sensecrypt.worktime import work_seconds

MAX_ATTEMPTS = 3
VALUE_BYTES = 4  # bytes of a parameter in a model
_FINAL = (
    *("tags-mismatch", "too-few-contributors", "doubled-contributor", "no-tag"),
    *("groups", "superseded", "claimed", "rejected", "too-many-failures", "run-closed"),
)
_CLOSED = ("too-many-failures", "run-closed")  # every sum is refused
_RESTING = "not asked in this round: its tags may be wrong"
_LOG = logging.getLogger("sensecrypt.coordinator")


def play_round(run: Coordination, state: RunState, number: int, budgets: checks.FloatVector) -> list[Record]:
    """Play every cluster's round, record the new models in `state`, and return the records."""
    done: dict[int, ClosedSum] = {}
    for closed in load_closed(run.folder, number):  # of a coordinator that ended: each sum can be released only once
        try:
            _release_again(run, state, closed)
            done[closed.cluster] = closed
        except Refused as error:
            _require_final(error)
            _LOG.warning("round %d, cluster %d is played again: %s", number, closed.cluster, error)
    reasons: dict[int, str] = {}
    evaluated: list[Record] = []
    for _ in range(MAX_ATTEMPTS):
        left = [cluster for cluster in range(state.clusters) if cluster not in done]
        if not left:
            break
        attempt = begin_attempt(run.folder, number)
        collecting: dict[int, ClusterRound] = {}
        for cluster in left:
            begun = _begin(run, state, cluster, number, attempt, budgets)
            if begun is not None:
                collecting[cluster] = begun
            else:  # it was released, but the answer and the records were lost
                server = ServerRecord(round=number, cluster=cluster, crypto="real", records_lost=True)
                done[cluster] = ClosedSum(cluster, number, attempt - 1, b"", None, ClusterRecords(server, {}), [])
        if collecting:
            _collect(run, state, collecting, budgets)
        for cluster, each in collecting.items():
            evaluated += [
                Evaluation(round=state.latest[cluster][0].item(), evaluated=client, accuracy=accuracy)
                for client, accuracy in each.evaluated.items()
            ]
            try:
                done[cluster] = _release_sums(run, state, each)
            except (Rejected, Refused, InvalidInput) as error:
                _require_final(error)
                forget_closed(run.folder, cluster)
                silent = [f" (client {client}: {reason})" for client, reason in sorted(each.left_out.items())]
                reasons[cluster] = f"{error}{silent[0] if silent else ''}"
                if isinstance(error, Refused) and error.code in _CLOSED:
                    raise SenseCryptError(f"round {number}, cluster {cluster} cannot be released: {error}") from None
                _LOG.warning("round %d, cluster %d, attempt %d failed: %s", number, cluster, attempt, reasons[cluster])
    for cluster in range(state.clusters):
        if cluster not in done:
            where = f"round {number}, cluster {cluster} failed {MAX_ATTEMPTS} times"
            raise SenseCryptError(f"{where}: {reasons[cluster]}; fix it and --resume")
    for closed in done.values():
        state.latest[closed.cluster] = (closed.number, closed.attempt)
    return [*evaluated, *(record for _, closed in sorted(done.items()) for record in closed.records.all())]


def _require_final(error: SenseCryptError) -> None:
    """Raise errors after which this sum may still be released: it stays on disk until the run is resumed."""
    if isinstance(error, Refused) and error.code not in _FINAL:
        raise error


def _begin(
    run: Coordination, state: RunState, cluster: int, number: int, attempt: int, budgets: checks.FloatVector
) -> ClusterRound | None:
    """Register an attempt and return it; None: an earlier one was released, but its answer was lost."""
    round_ = run.describe(state, cluster, number, "model", attempt)
    try:
        run.keyservice.register_round(round_)
    except Refused as error:
        if error.code == "already-decrypted" and attempt > 0:
            return None
        raise
    invited, total = run.invite(round_)
    sensitivities = None
    if run.is_refresh(number, budgets[list(round_.weights)]):
        after = run.describe(state, cluster, number + 1, "sensitivity", attempt, members=round_.weights)
        run.keyservice.register_round(after)
        sensitivities = total.of_same_parts(after)
    clients = {
        client: ClientRecord(round=number, cluster=cluster, client=client, bytes_down=0) for client in round_.weights
    }
    server = ServerRecord(round=number, cluster=cluster, crypto=run.config.encryption.crypto)
    return ClusterRound(invited, total, sensitivities, ClusterRecords(server, clients), run.observer)


def _collect(
    run: Coordination, state: RunState, collecting: Mapping[int, ClusterRound], budgets: checks.FloatVector
) -> None:
    """Have the clusters' members train, and add their uploads as they arrive."""
    present = wait_for_quorum(run, [(each.total.round, each.invited) for each in collecting.values()])
    asked: dict[int, ClusterRound] = {}
    requests: dict[int, dict[str, bytes]] = {}
    for cluster, each in collecting.items():
        round_, start, refresh = each.total.round, state.start(cluster), each.sensitivities is not None
        for client in round_.weights:
            if client not in present or client not in each.invited:
                each.left_out[client] = "not reachable" if client in each.invited else _RESTING
                continue
            budget = float(budgets[client])
            assignment = Assignment(cluster, round_.number, round_.attempt, budget, start, refresh)
            asked[client], requests[client] = each, {"assignment": assignment.to_bytes()}
    if run.config.policy.propose is not None:
        requests = agree_on_masks(run, asked, requests)
    for reply in run.transport.ask("train", requests, seconds=run.patience.deadline):
        asked[reply.client].take(reply)
    for cluster, each in collecting.items():
        # A client that fails sends a zero update; if all clients fail, the user must know. Only clients on this machine
        # report why they failed.
        failures = {client: each.records.clients[client].failure for client in each.total.arrived}
        if failures and all(failures.values()):
            client, reason = min(failures.items())
            where = f"round {each.total.round.number}: no client of cluster {cluster} could train"
            raise SenseCryptError(f"{where}: client {client}: {reason}; fix it and --resume")


def wait_for_quorum(run: Coordination, rounds: Sequence[tuple[Round, Collection[int]]]) -> set[int]:
    """Wait until enough invited clients are reachable for every round, or time is up; return all reachable clients."""
    end = time.monotonic() + run.patience.deadline
    while True:
        run.registry.look(seconds=run.patience.proof)
        present = run.registry.present
        enough = all(run.rules.allow(each.weights, present & set(asked)) for each, asked in rounds)
        if enough or time.monotonic() >= end:
            return present
        time.sleep(run.patience.pause)


def _release_sums(run: Coordination, state: RunState, collecting: ClusterRound) -> ClosedSum:
    """Have a cluster's sums released, if necessary without a part; every sum is stored before it is submitted."""
    released = []

    def release_sum(without: int | None) -> None:
        closed = collecting.close(run.config.release.min_contributors, without=without)
        if run.durable:
            closed.save(run.folder)
        try:
            _release_model(run, state, closed)
        except (Refused, Rejected) as error:
            if error.code == MISMATCH:  # a restarted coordinator must not submit it again
                forget_closed(run.folder, closed.cluster)
            raise
        released.append(closed)

    part = run.exclusion.release(collecting.total, run.rules, release_sum)
    [closed] = released
    if collecting.sensitivities is not None:
        try:
            release_order(run, collecting.sensitivities, closed.records, first=part, closed=closed.sensitivity)
        except (Refused, Rejected) as error:
            _keep_order(closed, error)
    return closed


def release_order(
    run: Coordination,
    total: PartedSum,
    records: ClusterRecords,
    *,
    first: int | None = None,
    closed: bytes | None = None,
) -> None:
    """Have sensitivities released, if necessary without a part; the key service computes an importance order from them.

    Args:
        run: the run.
        total: the sum.
        records: the records of servers and of the clients that receive the order; they are updated.
        first: the part to leave out first.
        closed: the sum without that part, if it is already computed.
    """
    server, seconds = records.server, 0.0

    def release_sum(without: int | None) -> None:
        nonlocal seconds
        start, before = work_seconds(), total.cost.total_seconds
        if closed is not None and without == first:
            message = closed
        else:
            message = total.total(without=without).close().to_bytes(total.round)
        seconds += max(0.0, work_seconds() - start - (total.cost.total_seconds - before))
        records.server = with_cost(server, total.cost, seconds, multiplied=total.round.factors is not None)
        _release(run, message, total.round, records, {"bytes_down": order_bytes(total.round.size)})

    run.exclusion.release(total, run.rules, release_sum, first=first)


def _release_model(run: Coordination, state: RunState, closed: ClosedSum) -> None:
    round_ = run.describe(state, closed.cluster, closed.number, "model", closed.attempt, members=closed.members)
    _release(run, closed.model, round_, closed.records, {"bytes_down": VALUE_BYTES * round_.size})
    run.observer.released(round_, closed.model)


def _release(
    run: Coordination, aggregate: bytes, round_: Round, records: ClusterRecords, received: Mapping[str, float]
) -> None:
    """Have a sum released; add its cost to the records of the server or of the clients that decrypt."""
    start, work = time.perf_counter(), work_seconds()
    cost = run.keyservice.release(aggregate, round_).cost
    spent: dict[str, float] = {"release_seconds": time.perf_counter() - start}
    if cost is not None:  # the key server is in this process
        spent = {
            "release_seconds": max(0.0, work_seconds() - work - cost.total_seconds),
            "decrypt_seconds": cost.seconds.get("decrypt", 0.0),
            "decrypted_blocks": cost.blocks.get("decrypt", 0),
        }
    if run.clients_decrypt:
        received = {**spent, "bytes_down": len(aggregate)}
    else:
        records.server = grown(records.server, spent)
    for client, record in records.clients.items():
        if record.counts:
            records.clients[client] = grown(record, received)


def _release_again(run: Coordination, state: RunState, closed: ClosedSum) -> None:
    """Submit the sums that the coordinator had closed before it ended."""
    _release_model(run, state, closed)
    if closed.sensitivity is not None:
        number, attempt = closed.number + 1, closed.attempt
        after = run.describe(state, closed.cluster, number, "sensitivity", attempt, members=closed.members)
        try:
            run.keyservice.release(closed.sensitivity, after)
        except Refused as error:
            _keep_order(closed, error)


def _keep_order(closed: ClosedSum, error: SenseCryptError) -> None:
    closed.records.server = replace(closed.records.server, no_new_order=str(error))
    _LOG.warning("round %d, cluster %d keeps its order: %s", closed.number, closed.cluster, error)
