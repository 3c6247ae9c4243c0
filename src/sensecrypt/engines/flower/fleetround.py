"""One round of a fleet as the aggregator plays it: all clusters at once, sums opened by the key service.

A cluster whose round fails (too few arrive, a sum does not verify) is tried again under a new attempt's number;
clusters that are done are not touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flwr.serverapp import Grid

from sensecrypt import checks
from sensecrypt.config import RunConfig
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.engines.flower.checkpoint import Closed, FleetState, begin_attempt, forget_closed, load_closed
from sensecrypt.engines.flower.collecting import Collecting
from sensecrypt.engines.flower.exchange import ask
from sensecrypt.engines.flower.messages import Assignment
from sensecrypt.engines.flower.partedsum import MISMATCH, PartedSum
from sensecrypt.engines.flower.roster import Roster
from sensecrypt.engines.flower.settings import Settings
from sensecrypt.engines.flower.suspicion import Suspicion
from sensecrypt.engines.notes import Notes, grow
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.errors import InvalidInput, Refused, Rejected, SenseCryptError
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.groups import make_groups
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.sumrules import SumRules
from sensecrypt.services.dkms.client import DkmsClient

MAX_ATTEMPTS = 3
_FINAL = (
    *("receipts-mismatch", "too-few-contributors", "doubled-contributor", "no-receipt"),
    *("groups", "superseded", "claimed", "rejected", "too-many-failures", "run-closed"),
)
_CLOSED = ("too-many-failures", "run-closed")  # whatever is sent
_RESTING = "not asked: it may be the client that spoils sums"
LOOK_SECONDS = 60.0  # for a node that is new to say who it is
_PAUSE = 2.0
_LOG = logging.getLogger("sensecrypt.fleet")


@dataclass(frozen=True, eq=False)
class Aggregator:
    """What all rounds share.

    Attributes:
        grid: Flower's way to the nodes.
        settings: of the run.
        config: of the run, with the devices that clients told.
        dkms: the key service, as aggregator.
        public: the run's public key.
        folder: where records and checkpoints go.
        roster: who is there.
        registered: the key service's rules for sums, which members' weights follow from.
        suspicion: whose receipts may be wrong.
    """

    grid: Grid
    settings: Settings
    config: RunConfig
    dkms: DkmsClient
    public: EncryptionKey
    folder: RunFolder
    roster: Roster
    registered: SumRules
    suspicion: Suspicion = field(default_factory=Suspicion)

    @property
    def rules(self) -> SumRules:
        """For the sums that are handed in: the key service's, with the run's own quorum if that is larger."""
        return replace(self.registered, quorum=max(self.registered.quorum, self.config.quorum))

    def describe(self, state: FleetState, cluster: int, number: int, purpose: str, attempt: int) -> Round:
        """What all members of a cluster agree on before a round."""
        weights = self.registered.weights({client: int(state.samples[client]) for client in state.members(cluster)})
        profile = get_profile(self.config.profile)
        clip = state.clip if purpose == "model" else None
        return Round(self.settings.run, number, cluster, purpose, state.size, profile, weights, attempt, clip=clip)

    def invite(self, round_: Round) -> tuple[set[int], list[set[int]]]:
        """The members to ask, and the parts of their sum."""
        cluster, weights, present = round_.cluster, round_.weights, self.roster.nodes().keys()
        invited = self.suspicion.invited(cluster, weights, present=present, quorum=self.rules.quorum)
        if self.rules.fixed_groups:
            return invited, make_groups(weights, self.rules.min_contributors)
        return invited, self.suspicion.parts(cluster, invited, weights, self.rules)


def play_round(
    aggregator: Aggregator, state: FleetState, number: int, budgets: checks.FloatVector, *, refresh: bool
) -> list[Record]:
    """Every cluster's round; puts where the new models are into `state`, and returns the records."""
    folder = aggregator.folder
    done = {closed.cluster: closed for closed in load_closed(folder, number)}
    for closed in list(done.values()):  # of a ServerApp that was ended: the same sums, which can be opened only once
        try:
            _open_again(aggregator, state, closed)
        except Refused as error:
            _require_final(error)
            _LOG.warning("round %d, cluster %d is played again: %s", number, closed.cluster, error)
            del done[closed.cluster]
    reason, evaluated = "", []
    for _ in range(MAX_ATTEMPTS):
        left = [cluster for cluster in range(state.clusters) if cluster not in done]
        if not left:
            break
        attempt = begin_attempt(folder, number)
        begun = {cluster: _begin(aggregator, state, cluster, number, attempt, refresh=refresh) for cluster in left}
        done |= {cluster: _opened_before(cluster, number, attempt) for cluster, each in begun.items() if each is None}
        collecting = {cluster: each for cluster, each in begun.items() if each is not None}
        _collect(aggregator, state, collecting, budgets, refresh=refresh)
        for cluster, each in collecting.items():
            evaluated += [
                {"round": state.latest[cluster][0].item(), "evaluated": client, "accuracy": accuracy}
                for client, accuracy in each.evaluated.items()
            ]
            try:
                done[cluster] = _hand_in(aggregator, state, each)
            except (Rejected, Refused, InvalidInput) as error:
                _require_final(error)
                forget_closed(folder, cluster)
                reason = str(error)
                if isinstance(error, Refused) and error.code in _CLOSED:
                    raise SenseCryptError(f"round {number}, cluster {cluster} cannot be opened: {reason}") from None
                _LOG.warning("round %d, cluster %d, attempt %d failed: %s", number, cluster, attempt, reason)
    if len(done) < state.clusters:
        raise SenseCryptError(f"round {number} failed {MAX_ATTEMPTS} times: {reason}; fix it and resume the run")
    for closed in done.values():
        state.latest[closed.cluster] = (closed.number, closed.attempt)
    return [*evaluated, *(record for cluster in sorted(done) for record in done[cluster].records)]


def _require_final(error: SenseCryptError) -> None:
    """Raise what does not tell that this sum will never be opened: it stays on disk, for when the run is resumed."""
    if isinstance(error, Refused) and error.code not in _FINAL:
        raise error


def end_round(aggregator: Aggregator, state: FleetState, records: Sequence[Record]) -> None:
    """Write the round down; a ServerApp that is killed from now on continues after it."""
    folder, number = aggregator.folder, state.next_round - 1
    folder.append([*records, *({"round": number, **refusal} for refusal in aggregator.roster.take_refusals())])
    state.save(folder)
    forget_closed(folder)


def _collect(
    aggregator: Aggregator,
    state: FleetState,
    collecting: Mapping[int, Collecting],
    budgets: checks.FloatVector,
    *,
    refresh: bool,
) -> None:
    """Have the clusters' members play, and add what arrives as it arrives."""
    if not collecting:
        return
    nodes = wait_for_quorum(aggregator, [(each.round, each.invited) for each in collecting.values()])
    assigned: dict[int, int] = {}
    requests = {}
    for cluster, each in collecting.items():
        for client in each.round.weights:
            if client not in nodes or client not in each.invited:
                each.notes.left_out[client] = "not there" if client in each.invited else _RESTING
                continue
            budget, start = float(budgets[client]), state.start(cluster)
            assignment = Assignment(cluster, each.round.number, each.round.attempt, budget, start, refresh)
            assigned[nodes[client]] = client
            requests[nodes[client]] = {"assignment": assignment.to_bytes()}
    for reply in ask(aggregator.grid, "train", requests, seconds=aggregator.settings.deadline):
        client = assigned[reply.node]
        collecting[int(state.labels[client])].take(client, reply)


def wait_for_quorum(aggregator: Aggregator, rounds: Sequence[tuple[Round, Collection[int]]]) -> dict[int, int]:
    """The nodes that are there, once those invited are enough for every round, or when nobody is waited for longer."""
    end = time.monotonic() + aggregator.settings.deadline
    while True:
        aggregator.roster.look(seconds=min(LOOK_SECONDS, aggregator.settings.deadline))
        nodes = aggregator.roster.nodes()
        enough = all(aggregator.rules.allow(each.weights, nodes.keys() & set(asked)) for each, asked in rounds)
        if enough or time.monotonic() >= end:
            return nodes
        time.sleep(_PAUSE)


def _begin(
    aggregator: Aggregator, state: FleetState, cluster: int, number: int, attempt: int, *, refresh: bool
) -> Collecting | None:
    """Register an attempt; None if an earlier one was opened, of which this aggregator was not told."""
    round_ = aggregator.describe(state, cluster, number, "model", attempt)
    try:
        aggregator.dkms.register_round(round_)
    except Refused as error:
        if error.code == "already-decrypted" and attempt > 0:
            return None
        raise
    after = None
    if refresh:
        after = aggregator.describe(state, cluster, number + 1, "sensitivity", attempt)
        aggregator.dkms.register_round(after)
    server: Record = {"round": number, "cluster": cluster, "server": True, "crypto": "real"}
    notes = Notes({client: {"bytes_down": 0} for client in round_.weights}, server)
    invited, parts = aggregator.invite(round_)
    whole = aggregator.rules.fixed_groups
    sensitivities = None if after is None else PartedSum(after, aggregator.public, parts, whole=whole)
    total = PartedSum(round_, aggregator.public, parts, whole=whole)
    return Collecting(round_, invited, total, after, sensitivities, notes, aggregator.dkms.receipts)


def _hand_in(aggregator: Aggregator, state: FleetState, collecting: Collecting) -> Closed:
    """Have a cluster's sums opened, if need be without those who spoil them; what was opened is on disk before."""
    kept = []

    def open_sum(without: int | None) -> None:
        closed = collecting.close(aggregator.config, without=without)
        closed.save(aggregator.folder)
        try:
            _open_model(aggregator, state, closed)
        except Refused as error:
            if error.code == MISMATCH:  # it is not handed in again by a ServerApp that starts anew
                forget_closed(aggregator.folder, closed.cluster)
            raise
        kept.append(closed)

    spoilt = _open_parted(aggregator, collecting.total, open_sum)
    [closed] = kept
    if collecting.sensitivities is not None:
        _open_order(aggregator, collecting.sensitivities, closed.records[-1], spoilt=spoilt)
    return closed


def _open_parted(
    aggregator: Aggregator, total: PartedSum, open_sum: Callable[[int | None], None], *, first: int | None = None
) -> int | None:
    """Have a sum opened, if need be without a part of it, which is suspected then and returned."""
    cluster = total.round.cluster
    try:
        part = total.open_most(aggregator.rules, open_sum, first=first)
    except Refused:
        aggregator.suspicion.forget(cluster)
        raise
    left_out = total.of_part(part)
    if left_out:
        _LOG.warning("cluster %d: the sum matches without clients %s", cluster, ", ".join(map(str, left_out)))
    aggregator.suspicion.learn(cluster, set(total.contributors) - set(left_out), left_out)
    return part


def open_ranking(aggregator: Aggregator, total: PartedSum, *, spoilt: int | None = None) -> None:
    """Have sensitivities opened, if need be without those who spoil them: the key service makes an order of them."""

    def open_sum(without: int | None) -> None:
        aggregator.dkms.open(total.total(without=without).close().to_bytes(total.round), total.round)

    _open_parted(aggregator, total, open_sum, first=spoilt)


def _open_order(aggregator: Aggregator, total: PartedSum, server: Record, *, spoilt: int | None) -> None:
    """The cluster's new order, without those who spoilt its model; without one the old one stays."""
    start = time.perf_counter()
    try:
        open_ranking(aggregator, total, spoilt=spoilt)
    except (Refused, Rejected) as error:
        server["no_new_order"] = str(error)
        _LOG.warning("round %d, cluster %d keeps its order: %s", total.round.number - 1, total.round.cluster, error)
    grow(server, {"open_seconds": time.perf_counter() - start})


def _opened_before(cluster: int, number: int, attempt: int) -> Closed:
    """What stands for a sum that was opened though its answer got lost; its records are lost, too."""
    server: Record = {"round": number, "cluster": cluster, "server": True, "crypto": "real", "records_lost": True}
    return Closed(cluster, number, attempt - 1, b"", None, [server])


def _open_model(aggregator: Aggregator, state: FleetState, closed: Closed) -> None:
    start = time.perf_counter()
    round_ = aggregator.describe(state, closed.cluster, closed.number, "model", closed.attempt)
    aggregator.dkms.open(closed.model, round_)
    grow(closed.records[-1], {"open_seconds": time.perf_counter() - start})


def _open_again(aggregator: Aggregator, state: FleetState, closed: Closed) -> None:
    """Hand in what a ServerApp that was ended had closed; without a new order the old one stays."""
    _open_model(aggregator, state, closed)
    if closed.sensitivity is not None:
        after = aggregator.describe(state, closed.cluster, closed.number + 1, "sensitivity", closed.attempt)
        try:
            aggregator.dkms.open(closed.sensitivity, after)
        except Refused as error:
            closed.records[-1]["no_new_order"] = str(error)
            _LOG.warning("round %d, cluster %d keeps its order: %s", closed.number, closed.cluster, error)
