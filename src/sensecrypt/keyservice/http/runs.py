"""Runs: their registration, their members, and the number of samples of each member.

An admin registers a run with its members. In a run that an app registers, members join by themselves, each certificate
under one number, and the sums go to the aggregator, which has the model.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.http.audit import Facts
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.keyservice.names import PATTERN
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.keyserver import MOST_FAILURES
from sensecrypt.types import BoolVector

MOST = 2**31 - 1
NAME = f"^{PATTERN}$"
_Name = Annotated[str, Field(pattern=NAME)]
_Number = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]


class ServerRequest(BaseModel):
    """How a round's mean update moves a model."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    rule: Literal["fedavg", "fedavgm", "fedadam", "fedyogi"] = "fedavg"
    learning_rate: float = Field(default=1.0, gt=0, le=1e6, description="of the server")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of the momentum, or of the first moment")
    beta2: float = Field(default=0.99, ge=0, lt=1, description="of the second moment")
    tau: float = Field(default=1e-3, ge=1e-12, le=1e6, description="keeps steps small where nothing moved")
    statistics: int = Field(default=0, ge=0, le=MOST, description="values at the end that are no parameters")


class RunRequest(BaseModel):
    """A run as it is registered."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    size: int = Field(ge=1, le=MOST, description="parameters of the model")
    profile: str = Field(max_length=64, description="of its key pair; see `sensecrypt keys generate --help`")
    members: dict[_Number, _Name] = Field(
        default={}, description="the certificate's name of every client, by the client's number"
    )
    aggregators: list[_Name] = Field(
        min_length=1, max_length=100, description="names of the certificates that may register its rounds and sums"
    )
    min_contributors: int = Field(default=3, ge=1, le=MOST, description="the fewest clients in a sum")
    quorum: float = Field(
        default=0.5, gt=0, le=1, description="the least part of a cluster's weight, and of its clients, in a sum"
    )
    first: list[tuple[int, int]] = Field(
        default=[], max_length=10_000, description="ranges [start, stop) of parameters that come first in every order"
    )
    rounds: int | None = Field(
        default=None, ge=1, le=MOST, description="number of rounds: its key is destroyed after the last"
    )
    server: ServerRequest = Field(default=ServerRequest(), description="how a round's mean update moves a model")
    release_to_aggregator: bool = Field(
        default=False, description="whether its aggregator receives the sums: members then join by themselves"
    )


class Run(RunRequest):
    """A registered run. The database has it as JSON."""

    run: str

    @property
    def blocks(self) -> int:
        """Ciphertexts of a model that is encrypted whole."""
        return -(-self.size // min(get_profile(self.profile).slots, self.size))

    @cached_property
    def names(self) -> dict[int, str]:
        """The names of the members that it was registered with, by number."""
        return {int(number): name for number, name in sorted(self.members.items(), key=lambda item: int(item[0]))}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers of these members, by name."""
        return {name: number for number, name in self.names.items()}

    def flags(self) -> BoolVector | None:
        """`first` as one bool per parameter."""
        if not self.first:
            return None
        flags = np.zeros(self.size, dtype=bool)
        for start, stop in self.first:
            flags[start:stop] = True
        return flags


class Runs:
    """The runs of a service, in its database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Run] = {}  # a run never changes
        self.ended = {name for (name,) in store.rows("SELECT run FROM runs WHERE ended")}

    def get(self, name: str) -> Run:
        """The run of that name, or a refusal."""
        found = self.find(name)
        if found is None:
            raise refused("unknown-run", "there is no run of that name")
        return found

    def find(self, name: str) -> Run | None:
        """The run of that name, if there is one."""
        if name not in self._known:
            row = self._store.row("SELECT description FROM runs WHERE run = ?", name)
            if row is None:
                return None
            self._known[name] = Run.model_validate_json(row[0])
        return self._known[name]

    def add(self, run: Run, fingerprint: str, who: Identity) -> None:
        """Keep a run that has a key pair."""

        def work(transaction: Transaction) -> None:
            transaction.change("INSERT INTO runs VALUES (?, ?, ?, 0)", run.run, run.model_dump_json(), fingerprint)
            facts: Facts = {"profile": run.profile, "size": run.size, "members": len(run.members)}
            transaction.note("run-registered", who, run=run.run, **facts, fingerprint=fingerprint)

        self._store.run(work)

    def end(self, name: str, who: Identity) -> None:
        """End a run: its sums are no longer decrypted, and its blinding seeds are erased. Released models stay."""

        def work(transaction: Transaction) -> None:
            if transaction.change("UPDATE runs SET ended = 1 WHERE run = ? AND NOT ended", name):
                transaction.erase("UPDATE tags SET blinded = NULL WHERE run = ? AND blinded IS NOT NULL", name)
                transaction.note("run-ended", who, run=name)

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
        registered, released = self._store.row(sql, run.run, run.rounds - 1) or (0, 0)
        return bool(registered) and registered == released

    def keep_samples(self, run: str, client: int, samples: int, who: Identity) -> None:
        """Keep a client's number of samples; only its first report counts, for all rounds of the run."""

        def work(transaction: Transaction) -> None:
            if transaction.change("INSERT INTO samples VALUES (?, ?, ?) ON CONFLICT DO NOTHING", run, client, samples):
                transaction.note("samples-kept", who, run=run, client=client, samples=samples)

        self._store.run(work)

    def samples(self, run: str) -> dict[int, int]:
        """How many samples each member has reported."""
        return dict(self._store.rows("SELECT client, samples FROM samples WHERE run = ?", run))

    def number(self, run: Run, name: str) -> int | None:
        """The number of the member with that certificate's name."""
        if not run.release_to_aggregator:
            return run.numbers.get(name)
        row = self._store.row("SELECT client FROM joined WHERE (run, name) = (?, ?)", run.run, name)
        return None if row is None else row[0]

    def names(self, run: Run) -> dict[int, str]:
        """The names of all members, by number."""
        if not run.release_to_aggregator:
            return run.names
        return dict(self._store.rows("SELECT client, name FROM joined WHERE run = ? ORDER BY client", run.run))

    def join(self, run: str, client: int, who: Identity, *, most: int) -> None:
        """Make a certificate a member under a number; repeating this changes nothing."""

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
            transaction.note("client-joined", who, run=run, client=client)

        self._store.run(work)


def require_going_on(transaction: Transaction, run: str) -> None:
    """Raise if the run has ended."""
    row = transaction.row("SELECT ended FROM runs WHERE run = ?", run)
    if row is not None and row[0]:
        raise refused("run-ended", f"run {run} has ended")


def check_run(run: Run, who: Identity, policy: Policy) -> None:
    """Raise unless `who` may register the run, and the operator allows it."""

    def wrong(reason: str) -> Exception:
        return refused("outside-policy", reason)

    if not run.release_to_aggregator and who.role != "admin":
        reason = "an aggregator registers runs with release_to_aggregator only; others: an admin"
        raise refused("wrong-role", reason)
    if run.release_to_aggregator:
        if who.role == "aggregator" and run.aggregators != [who.name]:
            raise refused("not-the-aggregator", f"{who.name} registers runs with itself as the only aggregator")
        if missing := sorted(set(run.aggregators) - set(policy.release_to)):
            raise wrong(f"sums are not released to {missing[0]}: it is not in the policy's release_to")
        if run.members or run.first:
            raise wrong("members join such a run themselves, and it has no importance order")
    elif not run.members:
        raise wrong("a run needs members")
    try:
        profile = get_profile(run.profile)
    except InvalidInput as error:
        raise wrong(f"the profile {error.problem}"[:200]) from None
    if profile.security_bits == 0 and not policy.allow_insecure:
        raise wrong(f"profile {run.profile} gives no security")
    if profile.forgeries_show_key and policy.failures_per_run > MOST_FAILURES:
        raise wrong(f"profile {run.profile} is not for a service where more than {MOST_FAILURES} sums of a run fail")
    if run.size > policy.max_parameters or len(run.members) > policy.max_members:
        raise wrong("the model has too many parameters, or the run too many members")
    most = policy.max_members if run.release_to_aggregator else len(run.members)
    if not policy.min_contributors <= run.min_contributors <= most:
        raise wrong(f"min_contributors must be at least {policy.min_contributors}, and at most all members")
    if not policy.quorum <= run.quorum <= 1:
        raise wrong(f"quorum must be at least {policy.quorum}, and at most 1")
    if len(run.numbers) != len(run.members):
        raise wrong("two members have one name")
    if run.numbers.keys() & set(run.aggregators):
        raise wrong("a member has an aggregator's name")
    if any(not 0 <= start < stop <= run.size for start, stop in run.first):
        raise wrong("a range of `first` is outside the model")
