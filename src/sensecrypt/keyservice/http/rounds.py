"""Rounds: their registration, and the model that all members of a round start from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.runs import Run, require_going_on
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round, RoundAddress, address_of, describe_round, read_round

_KEPT = 256  # rounds in memory
_ROUNDING = 1e-9  # weights are quotients of whole numbers


class Rounds:
    """The rounds of a service, in its database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[RoundAddress, Round] = OrderedDict()  # a round never changes

    def get(self, place: RoundAddress) -> Round:
        """The round at that address, or a refusal."""
        found = self.find(place)
        if found is None:
            raise refused("unknown-round", "there is no such round, or not this attempt of it")
        return found

    def find(self, place: RoundAddress) -> Round | None:
        """The round at that address, if there is one."""
        found = self._known.get(place)
        if found is None:
            sql = "SELECT description FROM rounds WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
            row = self._store.row(sql, *place.all)
            if row is None:
                return None
            found = self._known[place] = read_round(row[0])
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    def latest(self, run: str, cluster: int) -> Round:
        """A cluster's present round of models, or its last."""
        sql = (
            "SELECT number, attempt FROM rounds WHERE (run, cluster, purpose) = (?, ?, 'model') "
            "ORDER BY number DESC, attempt DESC LIMIT 1"
        )
        row = self._store.row(sql, run, cluster)
        if row is None:
            raise refused("unknown-round", "the cluster has no round yet")
        return self.get(RoundAddress(run, row[0], cluster, "model", row[1]))

    def add(self, round_: Round, who: Identity) -> None:
        """Keep a round; repeating its registration changes nothing."""
        place = address_of(round_)

        def work(transaction: Transaction) -> None:
            sql = "SELECT description FROM rounds WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
            known = transaction.row(sql, *place.all)
            if known is not None:
                if read_round(known[0]) != round_:
                    raise refused("conflict", "this attempt was registered with other members or weights")
                return
            require_going_on(transaction, place.run)
            _check_free(transaction, place, set(round_.weights))
            ranking = None
            if round_.purpose == "model":
                sql = "SELECT max(id) FROM rankings WHERE (run, cluster) = (?, ?)"
                ranking = (transaction.row(sql, round_.run, round_.cluster) or (None,))[0]
            row = (*place.all, describe_round(round_), ranking)
            transaction.change("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
            sql = (  # earlier attempts and rounds are not released any more: their blinding seeds are erased
                "UPDATE tags SET blinded = NULL WHERE (run, cluster, purpose) = (?, ?, ?)"
                " AND (number, attempt) < (?, ?) AND blinded IS NOT NULL"
            )
            transaction.erase(sql, place.run, place.cluster, place.purpose, place.number, place.attempt)
            transaction.note("round-registered", who, place, clients=sorted(round_.weights))

        self._store.run(work)

    def require_start(self, place: RoundAddress, start: str | None, who: Identity) -> None:
        """Keep the first start that a member of the round received, and refuse every other.

        `start` is the hash of the model that the member received. Without this check, an aggregator could send all but
        one client a model with zero updates.
        """
        if start is None:
            raise refused("rejected", "members of this run must send the hash of the model that they start from")

        def work(transaction: Transaction) -> bool:
            sql = "INSERT INTO starts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            transaction.change(sql, *place.all, start)
            sql = "SELECT start FROM starts WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
            if transaction.row(sql, *place.all) == (start,):
                return True
            transaction.note("another-start", who, place)
            return False

        if not self._store.run(work):
            reason = "another member of this round received another model, or other terms"
            raise refused("another-start", reason)


def check_round(round_: Round, run: Run, samples: Mapping[int, int], rules: ReleaseRules) -> None:
    """Raise unless it is a round of the run, with its members, and with the weights that follow from their samples.

    An aggregator does not set weights. In a run that releases to its aggregator, all members have the same weight here,
    as each upload contains its own.
    """
    if (round_.size, round_.profile) != (run.size, get_profile(run.profile)):
        raise refused("outside-policy", f"run {run.run} has {run.size:,} parameters and profile {run.profile}")
    if run.rounds is not None and round_.number >= run.rounds:
        raise refused("outside-policy", f"run {run.run} was registered with {run.rounds} rounds")
    if not run.release_to_aggregator and not round_.weights.keys() <= run.names.keys():
        raise refused("outside-policy", "a member of the round is not registered with the run")
    rules.check(round_.weights, round_.weights.keys())
    if run.release_to_aggregator:
        even = 1 / len(round_.weights)
        if any(abs(weight - even) > _ROUNDING for weight in round_.weights.values()):
            raise refused("other-weights", "members of this run weigh the same, and bring their own weights")
        return
    if silent := sorted(round_.weights.keys() - samples.keys()):
        raise refused("no-samples", f"client {silent[0]} has not reported how many samples it has")
    due = rules.weights({client: samples[client] for client in round_.weights})
    for client, weight in round_.weights.items():
        if abs(weight - due[client]) > _ROUNDING:
            follows = f"the samples that members reported give {due[client]:.4g}"
            raise refused("other-weights", f"client {client} has a weight of {weight:.4g}, {follows}")


def superseded_by(transaction: Transaction, place: RoundAddress) -> str | None:
    """The later attempt or round after which no sum of this attempt is released, or None."""
    sql = "SELECT max(attempt) FROM rounds WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
    attempt = (transaction.row(sql, *place.round) or (None,))[0]
    if attempt != place.attempt:
        return f"attempt {attempt} of this round has begun"
    sql = "SELECT max(number) FROM rounds WHERE (run, cluster, purpose) = (?, ?, ?)"
    number = (transaction.row(sql, place.run, place.cluster, place.purpose) or (None,))[0]
    return None if number == place.number else f"round {number} has begun, and earlier blinding seeds are erased"


def _check_free(transaction: Transaction, place: RoundAddress, members: set[int]) -> None:
    """Raise unless the attempt is the latest, nothing of the round was released, and no member has another cluster."""
    sql = "SELECT result IS NOT NULL FROM releases WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
    released = transaction.row(sql, *place.round)
    if released is not None and released[0]:
        raise refused("already-decrypted", "a sum of this round was decrypted; it cannot be started again")
    sql = "SELECT max(attempt) FROM rounds WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
    latest = (transaction.row(sql, *place.round) or (None,))[0]
    if latest is not None and latest > place.attempt:
        raise refused("superseded", f"attempt {latest} of this round has begun")
    sql = "SELECT description FROM rounds WHERE (run, number, purpose) = (?, ?, ?) AND cluster != ?"
    for (other,) in transaction.rows(sql, place.run, place.number, place.purpose, place.cluster):
        if members & read_round(other).weights.keys():
            raise refused("two-clusters", "a member of the round is in another cluster of the same round")
