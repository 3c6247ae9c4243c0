"""Runs and rounds: who registered what, and who is a member."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.http.audit import Facts
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.keyserver import MOST_FAILURES
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round, RoundAddress, address_of, describe_round, read_round
from sensecrypt.types import BoolVector

_KEPT_ROUNDS = 256  # in memory
_ROUNDING = 1e-9  # weights are quotients of whole numbers


@dataclass(frozen=True)
class Run:
    """What an admin registers.

    Attributes:
        run: its name.
        size: parameters of the model.
        profile: of its key pair.
        members: the certificate's name of every client, by the client's number.
        aggregators: names of the certificates that may register its rounds and submit its sums.
        min_contributors: the fewest clients in a sum.
        quorum: the least part of a cluster's weight, and of its clients, in a sum.
        first: ranges [start, stop) of parameters that come first in every order.
        rounds: how many it has, after which its key is destroyed; None: as many as come.
        server: the settings of the rule by which a round's mean update moves a model.
        release_to_aggregator: whether its aggregator is given the sums; members then join by themselves.
    """

    run: str
    size: int
    profile: str
    members: dict[int, str]
    aggregators: list[str]
    min_contributors: int
    quorum: float
    first: list[tuple[int, int]]
    rounds: int | None
    server: dict[str, Any]
    release_to_aggregator: bool = False

    @property
    def blocks(self) -> int:
        """Ciphertexts of a model that is encrypted whole."""
        return -(-self.size // min(get_profile(self.profile).slots, self.size))

    def client(self, name: str) -> int | None:
        """The number of the client of that name."""
        return self._numbers.get(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in self.members.items()}

    def flags(self) -> BoolVector | None:
        """`first` as one bool a parameter."""
        if not self.first:
            return None
        flags = np.zeros(self.size, dtype=bool)
        for start, stop in self.first:
            flags[start:stop] = True
        return flags

    def text(self) -> str:
        """As it stands in the database."""
        fields: dict[str, Any] = asdict(self)
        fields["members"] = {str(number): name for number, name in sorted(self.members.items())}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Run:
        """Read what `text` wrote."""
        fields = json.loads(text)
        fields["members"] = {int(number): name for number, name in fields["members"].items()}
        fields["first"] = [(start, stop) for start, stop in fields["first"]]
        return cls(**fields)


class Registry:
    """Runs and rounds in the database."""

    def __init__(self, store: Store) -> None:
        """Of this store; what was read once is kept in memory, as it never changes."""
        self._store = store
        self._runs: dict[str, Run] = {}
        self._rounds: OrderedDict[RoundAddress, Round] = OrderedDict()
        rows = store.run(lambda transaction: transaction.rows("SELECT run FROM runs WHERE ended"))
        self.ended = {name for (name,) in rows}

    def run(self, name: str) -> Run:
        """The run of that name."""
        found = self.find_run(name)
        if found is None:
            raise refused("unknown-run", "there is no run of that name")
        return found

    def find_run(self, name: str) -> Run | None:
        """The run of that name, if there is one."""
        if name not in self._runs:
            sql = "SELECT description FROM runs WHERE run = ?"
            row = self._store.run(lambda transaction: transaction.row(sql, name))
            if row is None:
                return None
            self._runs[name] = Run.parse(row[0])
        return self._runs[name]

    def add_run(self, run: Run, fingerprint: str, who: Identity) -> None:
        """Keep a run whose key pair has been made."""

        def work(transaction: Transaction) -> None:
            transaction.change("INSERT INTO runs VALUES (?, ?, ?, 0)", run.run, run.text(), fingerprint)
            facts: Facts = {"run": run.run, "profile": run.profile, "size": run.size, "members": len(run.members)}
            transaction.note({"event": "run-registered", **_by(who), **facts, "fingerprint": fingerprint})

        self._store.run(work)

    def end_run(self, name: str, who: Identity) -> None:
        """No sum of it is decrypted from now on, and no blinding is kept; what was released stays for its members."""

        def work(transaction: Transaction) -> None:
            if transaction.change("UPDATE runs SET ended = 1 WHERE run = ? AND NOT ended", name):
                transaction.erase("UPDATE tags SET blinded = NULL WHERE run = ? AND blinded IS NOT NULL", name)
                transaction.note({"event": "run-ended", **_by(who), "run": name})

        self._store.run(work)
        self.ended.add(name)

    def is_over(self, run: Run) -> bool:
        """Whether every cluster that is registered with the run's last round has been released."""
        if run.rounds is None:
            return False
        sql = (
            "SELECT count(*), count(result) FROM (SELECT DISTINCT run, number, cluster, purpose FROM rounds"
            " WHERE (run, number, purpose) = (?, ?, 'model')) LEFT JOIN releases USING (run, number, cluster, purpose)"
        )
        last = run.rounds - 1
        row = self._store.run(lambda transaction: transaction.row(sql, run.run, last))
        registered, released = row or (0, 0)
        return bool(registered) and registered == released

    def keep_samples(self, run: str, client: int, samples: int, who: Identity) -> None:
        """How many samples a client has: the first that it tells counts, for all rounds of the run."""

        def work(transaction: Transaction) -> None:
            if transaction.change("INSERT INTO samples VALUES (?, ?, ?) ON CONFLICT DO NOTHING", run, client, samples):
                facts: Facts = {"run": run, "client": client, "samples": samples}
                transaction.note({"event": "samples-kept", **_by(who), **facts})

        self._store.run(work)

    def samples(self, run: str) -> dict[int, int]:
        """How many samples the members have that told it."""
        sql = "SELECT client, samples FROM samples WHERE run = ?"
        return dict(self._store.run(lambda transaction: transaction.rows(sql, run)))

    def round(self, place: RoundAddress) -> Round:
        """The round there, or a refusal."""
        found = self.find_round(place)
        if found is None:
            raise refused("unknown-round", "there is no such round, or not this attempt of it")
        return found

    def find_round(self, place: RoundAddress) -> Round | None:
        """The round there, if there is one."""
        found = self._rounds.get(place)
        if found is None:
            sql = "SELECT description FROM rounds WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
            row = self._store.run(lambda transaction: transaction.row(sql, *place.all))
            if row is None:
                return None
            found = self._rounds[place] = read_round(row[0])
            if len(self._rounds) > _KEPT_ROUNDS:
                self._rounds.popitem(last=False)
        return found

    def latest_round(self, run: str, cluster: int) -> Round:
        """The round of models that a cluster plays now, or played last."""
        sql = (
            "SELECT number, attempt FROM rounds WHERE (run, cluster, purpose) = (?, ?, 'model') "
            "ORDER BY number DESC, attempt DESC LIMIT 1"
        )
        row = self._store.run(lambda transaction: transaction.row(sql, run, cluster))
        if row is None:
            raise refused("unknown-round", "the cluster has played no round")
        return self.round(RoundAddress(run, row[0], cluster, "model", row[1]))

    def add_round(self, round_: Round, who: Identity) -> bool:
        """Keep a round; False if it was registered before, exactly so."""
        place, description = address_of(round_), describe_round(round_)

        def work(transaction: Transaction) -> bool:
            if _is_repeated(transaction, place, round_):
                return False
            require_going_on(transaction, place.run)
            _check_free(transaction, place, set(round_.weights))
            ranking = None
            if round_.purpose == "model":
                sql = "SELECT max(id) FROM rankings WHERE (run, cluster) = (?, ?)"
                ranking = (transaction.row(sql, round_.run, round_.cluster) or (None,))[0]
            row = (*place.all, description, ranking)
            transaction.change("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
            # Blindings of attempts and rounds that this one leaves behind will never be taken off.
            behind = "(run, cluster, purpose) = (?, ?, ?) AND (number, attempt) < (?, ?) AND blinded IS NOT NULL"
            values = (place.run, place.cluster, place.purpose, place.number, place.attempt)
            transaction.erase(f"UPDATE tags SET blinded = NULL WHERE {behind}", *values)  # noqa: S608  (constants)
            facts = {"event": "round-registered", **_by(who), **facts_of(place)}
            transaction.note({**facts, "clients": sorted(round_.weights)})
            return True

        return self._store.run(work)


def facts_of(place: RoundAddress) -> dict[str, str | int]:
    """A round in an audit line."""
    return {
        "run": place.run,
        "round": place.number,
        "cluster": place.cluster,
        "purpose": place.purpose,
        "attempt": place.attempt,
    }


def check_policy(run: Run, policy: Policy) -> None:
    """Raise unless the operator allows such a run."""
    try:
        profile = get_profile(run.profile)
    except InvalidInput as error:
        raise refused("outside-policy", f"the profile {error.problem}"[:200]) from None
    if profile.security_bits == 0 and not policy.allow_insecure:
        raise refused("outside-policy", f"profile {run.profile} gives no security")
    if profile.forgeries_show_key and policy.failures_per_run > MOST_FAILURES:
        reason = f"profile {run.profile} is not for a service where more than {MOST_FAILURES} sums of a run fail"
        raise refused("outside-policy", reason)
    if run.size > policy.max_parameters or len(run.members) > policy.max_members:
        raise refused("outside-policy", "the model has too many parameters, or the run too many members")
    most = policy.max_members if run.release_to_aggregator else len(run.members)
    if not policy.min_contributors <= run.min_contributors <= most:
        reason = f"min_contributors is to be at least {policy.min_contributors}, and at most all members"
        raise refused("outside-policy", reason)
    if not policy.quorum <= run.quorum <= 1:
        raise refused("outside-policy", f"quorum is to be at least {policy.quorum}, and at most 1")
    if len(set(run.members.values())) != len(run.members):
        raise refused("outside-policy", "two members have one name")
    if set(run.members.values()) & set(run.aggregators):
        raise refused("outside-policy", "a member has an aggregator's name")
    if any(not 0 <= start < stop <= run.size for start, stop in run.first):
        raise refused("outside-policy", "a range of `first` is outside the model")


def check_run(round_: Round, run: Run) -> None:
    """Raise unless the round is one of the registered run, with its members."""
    if (round_.size, round_.profile) != (run.size, get_profile(run.profile)):
        raise refused("outside-policy", f"run {run.run} has {run.size:,} parameters and profile {run.profile}")
    if run.rounds is not None and round_.number >= run.rounds:
        raise refused("outside-policy", f"run {run.run} was registered with {run.rounds} rounds")
    if not run.release_to_aggregator and not round_.weights.keys() <= run.members.keys():
        raise refused("outside-policy", "a member of the round is not registered with the run")


def require_going_on(transaction: Transaction, run: str) -> None:
    """Raise if the run has ended."""
    row = transaction.row("SELECT ended FROM runs WHERE run = ?", run)
    if row is not None and row[0]:
        raise refused("run-ended", f"run {run} has ended")


def check_weights(round_: Round, samples: Mapping[int, int], rules: ReleaseRules) -> None:
    """Raise unless the round's weights are those that follow from what its members told; an aggregator sets none."""
    if silent := sorted(round_.weights.keys() - samples.keys()):
        raise refused("no-samples", f"client {silent[0]} has not told how many samples it has")
    due = rules.weights({client: samples[client] for client in round_.weights})
    for client, weight in round_.weights.items():
        if abs(weight - due[client]) > _ROUNDING:
            reason = (
                f"client {client} has a weight of {weight:.4g}, the samples that members told give {due[client]:.4g}"
            )
            raise refused("other-weights", reason)


def left_behind(transaction: Transaction, place: RoundAddress) -> str | None:
    """Why no sum of that attempt will be released any more, or None: a later attempt, or round, has begun."""
    sql = "SELECT max(attempt) FROM rounds WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
    attempt = (transaction.row(sql, *place.round) or (None,))[0]
    if attempt != place.attempt:
        return f"attempt {attempt} of this round has begun"
    sql = "SELECT max(number) FROM rounds WHERE (run, cluster, purpose) = (?, ?, ?)"
    number = (transaction.row(sql, place.run, place.cluster, place.purpose) or (None,))[0]
    return None if number == place.number else f"round {number} has begun, and blindings of earlier ones are forgotten"


def _is_repeated(transaction: Transaction, place: RoundAddress, round_: Round) -> bool:
    sql = "SELECT description FROM rounds WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
    known = transaction.row(sql, *place.all)
    if known is not None and read_round(known[0]) != round_:
        raise refused("conflict", "this attempt of the round was registered with other members or weights")
    return known is not None


def _check_free(transaction: Transaction, place: RoundAddress, members: set[int]) -> None:
    """A new attempt comes after all others, before anything was decrypted, and takes nobody from another cluster."""
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


def _by(who: Identity) -> dict[str, str]:
    return {"role": who.role, "name": who.name}
