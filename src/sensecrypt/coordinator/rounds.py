"""One round as the coordinator plays it: all clusters at once, sums released by the key service.

A cluster whose round fails (too few arrive, a sum does not verify) is tried again under a new attempt's number;
clusters that are done are not touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sensecrypt import checks
from sensecrypt.coordinator.checkpoint import ClosedSum, RunState, begin_attempt, forget_closed, load_closed
from sensecrypt.coordinator.clusterround import ClusterRound, RoundRecords, agree_on_masks, with_cost
from sensecrypt.coordinator.coordination import Coordination
from sensecrypt.coordinator.sums import MISMATCH, PartedSum
from sensecrypt.errors import InvalidInput, Refused, Rejected, SenseCryptError
from sensecrypt.protocol.requests import Assignment
from sensecrypt.protocol.round import Round
from sensecrypt.records import ClientRecord, Evaluation, Played, Record, ServerRecord, grown, servers_of
from sensecrypt.worktime import work_seconds

MAX_ATTEMPTS = 3
INDEX_BYTES = 4  # of a parameter's number, when an order is handed out
_VALUE_BYTES = 4  # of a parameter, when a model is
_FINAL = (
    *("tags-mismatch", "too-few-contributors", "doubled-contributor", "no-tag"),
    *("groups", "superseded", "claimed", "rejected", "too-many-failures", "run-closed"),
)
_CLOSED = ("too-many-failures", "run-closed")  # whatever is sent
_RESTING = "not asked: it may be the client that spoils sums"
_LOG = logging.getLogger("sensecrypt.coordinator")


def play_round(run: Coordination, state: RunState, number: int, budgets: checks.FloatVector) -> list[Record]:
    """Every cluster's round; puts where the new models are into `state`, and returns the records."""
    folder = run.folder
    done = {closed.cluster: closed for closed in load_closed(folder, number)}
    for closed in list(
        done.values()
    ):  # of a coordinator that was ended: the same sums, which can be released only once
        try:
            _release_again(run, state, closed)
        except Refused as error:
            _require_final(error)
            _LOG.warning("round %d, cluster %d is played again: %s", number, closed.cluster, error)
            del done[closed.cluster]
    reasons: dict[int, str] = {}
    evaluated: list[Record] = []
    for _ in range(MAX_ATTEMPTS):
        left = [cluster for cluster in range(state.clusters) if cluster not in done]
        if not left:
            break
        attempt = begin_attempt(folder, number)
        begun = {cluster: _begin(run, state, cluster, number, attempt) for cluster in left}
        done |= {cluster: _released_before(cluster, number, attempt) for cluster, each in begun.items() if each is None}
        collecting = {cluster: each for cluster, each in begun.items() if each is not None}
        _collect(run, state, collecting, budgets)
        for cluster, each in collecting.items():
            evaluated += [
                Evaluation(round=state.latest[cluster][0].item(), evaluated=client, accuracy=accuracy)
                for client, accuracy in each.evaluated.items()
            ]
            try:
                done[cluster] = _hand_in(run, state, each)
            except (Rejected, Refused, InvalidInput) as error:
                _require_final(error)
                forget_closed(folder, cluster)
                reasons[cluster] = _explain(error, each)
                if isinstance(error, Refused) and error.code in _CLOSED:
                    raise SenseCryptError(f"round {number}, cluster {cluster} cannot be released: {error}") from None
                _LOG.warning("round %d, cluster %d, attempt %d failed: %s", number, cluster, attempt, reasons[cluster])
    for cluster in range(state.clusters):
        if cluster not in done:
            where = f"round {number}, cluster {cluster} failed {MAX_ATTEMPTS} times"
            raise SenseCryptError(f"{where}: {reasons[cluster]}; fix it and --resume")
    for closed in done.values():
        state.latest[closed.cluster] = (closed.number, closed.attempt)
    return [*evaluated, *(record for cluster in sorted(done) for record in done[cluster].records)]


def _explain(error: SenseCryptError, collecting: ClusterRound) -> str:
    """Why a sum was not released, with the first client that sent nothing."""
    for client, reason in sorted(collecting.notes.left_out.items()):
        return f"{error} (client {client}: {reason})"
    return str(error)


def _require_final(error: SenseCryptError) -> None:
    """Raise what does not tell that this sum will never be released: it stays on disk, for when the run is resumed."""
    if isinstance(error, Refused) and error.code not in _FINAL:
        raise error


def _begin(run: Coordination, state: RunState, cluster: int, number: int, attempt: int) -> ClusterRound | None:
    """Register an attempt; None if an earlier one was released, of which this coordinator was not told."""
    round_ = run.describe(state, cluster, number, "model", attempt)
    try:
        run.keyservice.register_round(round_)
    except Refused as error:
        if error.code == "already-decrypted" and attempt > 0:
            return None
        raise
    after = None
    if run.is_refresh(number):
        after = run.describe(state, cluster, number + 1, "sensitivity", attempt, members=round_.weights)
        run.keyservice.register_round(after)
    clients = {
        client: ClientRecord(round=number, cluster=cluster, client=client, bytes_down=0) for client in round_.weights
    }
    notes = RoundRecords(clients, ServerRecord(round=number, cluster=cluster, crypto=run.config.encryption.crypto))
    invited, parts = run.invite(round_)
    whole = run.rules.fixed_groups
    sensitivities = None if after is None else PartedSum(after, run.public, parts, whole=whole)
    total = PartedSum(round_, run.public, parts, whole=whole)
    return ClusterRound(round_, invited, total, after, sensitivities, notes, run.keyservice.tags, run.observer)


def _collect(
    run: Coordination, state: RunState, collecting: Mapping[int, ClusterRound], budgets: checks.FloatVector
) -> None:
    """Have the clusters' members train, and add what arrives as it arrives."""
    if not collecting:
        return
    present = wait_for_quorum(run, [(each.round, each.invited) for each in collecting.values()])
    asked: dict[int, ClusterRound] = {}
    requests: dict[int, dict[str, bytes]] = {}
    for cluster, each in collecting.items():
        start, refresh = state.start(cluster), each.after is not None
        for client in each.round.weights:
            if client not in present or client not in each.invited:
                each.notes.left_out[client] = "not there" if client in each.invited else _RESTING
                continue
            budget = float(budgets[client])
            assignment = Assignment(cluster, each.round.number, each.round.attempt, budget, start, refresh)
            asked[client], requests[client] = each, {"assignment": assignment.to_bytes()}
    if run.policy.propose is not None:
        requests = agree_on_masks(run, asked, requests)
    for reply in run.transport.ask("train", requests, seconds=run.patience.deadline):
        asked[reply.client].take(reply)
    for each in collecting.values():
        _refuse_failure_of_all(each)


def _refuse_failure_of_all(collecting: ClusterRound) -> None:
    """One client that fails sends a zero update; where all do, the run has a mistake that its user must hear of.

    Only clients on this machine say why they failed.
    """
    arrived = collecting.total.arrived
    reasons = {client: collecting.notes.clients[client].failure for client in arrived}
    if reasons and all(reasons.values()):
        client, reason = min(reasons.items())
        round_ = collecting.round
        where = f"round {round_.number}: no client of cluster {round_.cluster} could train"
        raise SenseCryptError(f"{where}: client {client}: {reason}; fix it and --resume")


def wait_for_quorum(run: Coordination, rounds: Sequence[tuple[Round, Collection[int]]]) -> set[int]:
    """The clients that are there, once those invited are enough for every round, or when time is up."""
    end = time.monotonic() + run.patience.deadline
    while True:
        run.registry.look(seconds=run.patience.proof)
        present = run.registry.present
        enough = all(run.rules.allow(each.weights, present & set(asked)) for each, asked in rounds)
        if enough or time.monotonic() >= end:
            return present
        time.sleep(run.patience.pause)


def _hand_in(run: Coordination, state: RunState, collecting: ClusterRound) -> ClosedSum:
    """Have a cluster's sums released, if need be without those who spoil them; what was released is on disk before."""
    kept = []

    def release_sum(without: int | None) -> None:
        closed = collecting.close(run.config.release.min_contributors, without=without)
        if run.durable:
            closed.save(run.folder)
        try:
            _release_model(run, state, closed)
        except (Refused, Rejected) as error:
            if error.code == MISMATCH:  # it is not handed in again by a coordinator that starts anew
                forget_closed(run.folder, closed.cluster)
            raise
        kept.append(closed)

    spoilt = _release_parted(run, collecting.total, release_sum)
    [closed] = kept
    if collecting.sensitivities is not None:
        _open_order(run, collecting.sensitivities, closed.records, spoilt=spoilt)
    return closed


def _release_parted(
    run: Coordination, total: PartedSum, release_sum: Callable[[int | None], None], *, first: int | None = None
) -> int | None:
    """Have a sum released, if need be without a part of it, which is suspected then and returned."""
    cluster = total.round.cluster
    try:
        part = total.open_most(run.rules, release_sum, first=first)
    except (Refused, Rejected):
        run.exclusion.forget(cluster)
        raise
    left_out = total.of_part(part)
    if left_out:
        _LOG.warning("cluster %d: the sum matches without clients %s", cluster, ", ".join(map(str, left_out)))
    run.exclusion.learn(cluster, set(total.contributors) - set(left_out), left_out)
    return part


def release_ranking(run: Coordination, total: PartedSum, records: list[Played], *, spoilt: int | None = None) -> None:
    """Have sensitivities released, if need be without those who spoil them: the key service makes an order of them.

    Args:
        run: the run.
        total: the sum.
        records: of those who receive the order, one per client, and last of the servers: to be added to.
        spoilt: the part to leave out first.
    """

    def release_sum(without: int | None) -> None:
        start = work_seconds()
        chosen = total.total(without=without)
        message = chosen.close().to_bytes(total.round)
        cost = total.cost_with(chosen)
        if not total.counted:
            took = max(0.0, work_seconds() - start - chosen.cost.total_seconds)
            server = with_cost(_server(records), cost, multiplied=total.round.factors is not None)
            records[-1] = grown(server, {"aggregate_seconds": took})
            total.counted = True
        received = {"bytes_down": INDEX_BYTES * total.round.size}
        _charge_release(run, message, total.round, records, received)

    _release_parted(run, total, release_sum, first=spoilt)


def _open_order(run: Coordination, total: PartedSum, records: list[Played], *, spoilt: int | None) -> None:
    """The cluster's new order, without those who spoilt its model; without one the old one stays."""
    try:
        release_ranking(run, total, records, spoilt=spoilt)
    except (Refused, Rejected) as error:
        records[-1] = replace(_server(records), no_new_order=str(error))
        _LOG.warning("round %d, cluster %d keeps its order: %s", total.round.number - 1, total.round.cluster, error)


def _release_model(run: Coordination, state: RunState, closed: ClosedSum) -> None:
    round_ = run.describe(state, closed.cluster, closed.number, "model", closed.attempt, members=closed.members)
    _charge_release(run, closed.model, round_, closed.records, {"bytes_down": _VALUE_BYTES * round_.size})
    run.observer.released(round_, closed.model)


def _charge_release(
    run: Coordination, aggregate: bytes, round_: Round, records: list[Played], received: Mapping[str, int]
) -> None:
    """Have a sum released; whoever opens it is charged with that, and every member with what it receives."""
    start, work = time.perf_counter(), work_seconds()
    cost = run.keyservice.release(aggregate, round_).cost
    took: dict[str, float] = {"release_seconds": time.perf_counter() - start}
    if cost is not None:  # the key server is in this process
        took = {
            "release_seconds": max(0.0, work_seconds() - work - cost.total_seconds),
            "decrypt_seconds": cost.seconds.get("decrypt", 0.0),
            "decrypted_blocks": cost.blocks.get("decrypt", 0),
        }
    more: Mapping[str, float] = received
    if run.clients_decrypt:
        more = {**took, "bytes_down": len(aggregate)}
        records[-1] = replace(_server(records), release_seconds=None, decrypt_seconds=None, decrypted_blocks=None)
    else:
        records[-1] = grown(_server(records), took)
    for place, record in enumerate(records):
        if isinstance(record, ClientRecord) and record.counts:
            records[place] = grown(record, more)


def _server(records: Sequence[Played]) -> ServerRecord:
    """The last record, which is the servers'."""
    [*_, server] = servers_of(records)
    return server


def _release_again(run: Coordination, state: RunState, closed: ClosedSum) -> None:
    """Hand in what a coordinator that was ended had closed; without a new order the old one stays."""
    _release_model(run, state, closed)
    if closed.sensitivity is not None:
        number, attempt = closed.number + 1, closed.attempt
        after = run.describe(state, closed.cluster, number, "sensitivity", attempt, members=closed.members)
        try:
            run.keyservice.release(closed.sensitivity, after)
        except Refused as error:
            closed.records[-1] = replace(_server(closed.records), no_new_order=str(error))
            _LOG.warning("round %d, cluster %d keeps its order: %s", closed.number, closed.cluster, error)


def _released_before(cluster: int, number: int, attempt: int) -> ClosedSum:
    """What stands for a sum that was released though its answer got lost; its records are lost, too."""
    server = ServerRecord(round=number, cluster=cluster, crypto="real", records_lost=True)
    return ClosedSum(cluster, number, attempt - 1, b"", None, [server], [])
