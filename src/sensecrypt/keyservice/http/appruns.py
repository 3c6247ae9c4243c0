"""Runs that an app registers itself: members join them, and their sums go to the aggregator, which has the model.

A certificate is one member, and a member one certificate: the first that asks for a number has it. All members of a
round start from one model: the first that fetches its task says from which, and whoever was given another is told so.
Else an aggregator could hand one client a model that trains, and the others one whose updates are zero.
"""

from __future__ import annotations

from sensecrypt.keyservice.http.audit import Facts
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.registry import Run, facts_of, require_going_on
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.protocol.round import Round, RoundAddress

_ROUNDING = 1e-9


class AppRuns:
    """Who joined which run, and the start of each round, in the database."""

    def __init__(self, store: Store) -> None:
        """Of this store."""
        self._store = store

    def client(self, run: str, name: str) -> int | None:
        """The number with which a certificate's name joined."""
        sql = "SELECT client FROM joined WHERE (run, name) = (?, ?)"
        row = self._store.run(lambda transaction: transaction.row(sql, run, name))
        return None if row is None else row[0]

    def names(self, run: str) -> dict[int, str]:
        """Who joined, by number."""
        sql = "SELECT client, name FROM joined WHERE run = ? ORDER BY client"
        return dict(self._store.run(lambda transaction: transaction.rows(sql, run)))

    def join(self, run: str, client: int, who: Identity, *, most: int) -> None:
        """Make a certificate a member under a number; the same again changes nothing."""

        def work(transaction: Transaction) -> None:
            require_going_on(transaction, run)
            sql = "SELECT client, name FROM joined WHERE run = ? AND (client = ? OR name = ?)"
            known = transaction.rows(sql, run, client, who.name)
            if known == [(client, who.name)]:
                return
            if known:
                raise refused("conflict", f"number {client} or this certificate is another member of run {run}")
            if (transaction.row("SELECT count(*) FROM joined WHERE run = ?", run) or (0,))[0] >= most:
                raise refused("outside-policy", f"run {run} has {most:,} members, as many as the policy allows")
            transaction.change("INSERT INTO joined VALUES (?, ?, ?)", run, client, who.name)
            facts: Facts = {"role": who.role, "name": who.name, "run": run, "client": client}
            transaction.note({"event": "client-joined", **facts})

        self._store.run(work)

    def require_start(self, place: RoundAddress, start: str | None, who: Identity) -> None:
        """Keep the first start that a member of the round was given, and refuse every other."""
        if start is None:
            raise refused("rejected", "members of this run say from which model they start")

        def work(transaction: Transaction) -> None:
            sql = "INSERT INTO starts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            transaction.change(sql, *place.all, start)
            sql = "SELECT start FROM starts WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
            if transaction.row(sql, *place.all) != (start,):
                transaction.note({"event": "another-start", "role": who.role, "name": who.name, **facts_of(place)})
                other.append(True)

        other: list[bool] = []
        self._store.run(work)
        if other:
            raise refused("another-start", "another member of this round was given another model, or other terms")


def check_app_run(run: Run, who: Identity, policy: Policy) -> None:
    """Raise unless an aggregator registers a run of its own, as the operator allows it to."""
    if not run.release_to_aggregator:
        if who.role != "admin":
            raise refused(
                "wrong-role", "an aggregator registers runs with release_to_aggregator only; others: an admin"
            )
        if not run.members:
            raise refused("outside-policy", "a run has members")
        return
    if who.role == "aggregator" and run.aggregators != [who.name]:
        raise refused("not-the-aggregator", f"{who.name} registers runs with itself as the only aggregator")
    if missing := sorted(set(run.aggregators) - set(policy.release_to)):
        raise refused("outside-policy", f"sums are not released to {missing[0]}: it is not in the policy's release_to")
    if run.members or run.first:
        raise refused("outside-policy", "members join such a run themselves, and no order is made")


def check_equal(round_: Round) -> None:
    """Raise unless all members weigh the same: each brings its own weight within what it sends."""
    even = 1 / len(round_.weights)
    if any(abs(weight - even) > _ROUNDING for weight in round_.weights.values()):
        raise refused("other-weights", "members of this run weigh the same, and bring their own weights")
