"""The key server's memory in the database, each change with its audit line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.checks import FloatVector
from sensecrypt.errors import Rejected
from sensecrypt.keyservice.http.audit import Facts
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.registry import facts_of, left_behind, require_going_on
from sensecrypt.keyservice.http.storagecipher import StorageCipher
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.protocol.answers import (
    read_importance_order,
    read_moved,
    read_sketch,
    serialize_importance_order,
    serialize_moved,
    serialize_released,
    serialize_sketch,
)
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.messages import Tag
from sensecrypt.protocol.round import Round, RoundAddress, address_of, read_round
from sensecrypt.protocol.updates import FEDAVG, ReleasedSum, moved_after

_OPENING = "WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
_ATTEMPT = "WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"


class DatabaseLedger:
    """What `protocol.ledger.Ledger` asks for, on behalf of one party."""

    def __init__(
        self, store: Store, root: bytes, who: Identity, *, number: int = -1, rule: ServerRule | None = FEDAVG
    ) -> None:
        """A ledger whose audit lines name `who`, and whose orders are those of round `number`.

        Args:
            store: the database.
            root: what all seeds and keys at rest are derived from.
            who: asks.
            number: of the round whose sensitivities make an order.
            rule: by which a round's mean update moves a model; None: sums are kept as they are.
        """
        self._rule = rule
        self._store, self._root, self._who, self._number = store, root, who, number
        self._cipher = StorageCipher(root)

    @property
    def root(self) -> bytes:
        """What all seeds are derived from."""
        return self._root

    def ranking(self, run: str, cluster: int) -> ImportanceOrder | None:
        """The cluster's latest order, if it has one."""
        sql = "SELECT number, ranking FROM rankings WHERE (run, cluster) = (?, ?) ORDER BY id DESC LIMIT 1"
        return self._release_ranking(
            run, cluster, self._store.run(lambda transaction: transaction.row(sql, run, cluster))
        )

    def ranking_of(self, round_: Round) -> ImportanceOrder | None:
        """The order that was the latest when the round was registered."""
        # the clause is a constant; values are bound
        sql = f"SELECT number, ranking FROM rankings WHERE id = (SELECT ranking FROM rounds {_ATTEMPT})"  # noqa: S608
        row = self._store.run(lambda transaction: transaction.row(sql, *address_of(round_).all))
        return self._release_ranking(round_.run, round_.cluster, row)

    def keep_ranking(self, run: str, cluster: int, ranking: ImportanceOrder) -> None:
        """A new order for the cluster; a second one of the same round changes nothing."""
        number = self._number
        encrypted = self._cipher.encrypt(serialize_importance_order(ranking), "ranking", run, cluster, number)

        def work(transaction: Transaction) -> None:
            sql = "SELECT 1 FROM rankings WHERE (run, cluster, number) = (?, ?, ?)"
            if transaction.row(sql, run, cluster, number) is None:
                sql = "INSERT INTO rankings (run, cluster, number, ranking) VALUES (?, ?, ?, ?)"
                transaction.change(sql, run, cluster, number, encrypted)
                facts: Facts = {"run": run, "cluster": cluster, "round": number}
                transaction.note({"event": "order-made", **self._by, **facts})

        self._store.run(work)

    def keep_sketch(self, run: str, client: int, row: FloatVector) -> FloatVector:
        """Keep what describes a client's data, if it is the first; the one that was kept."""
        place = ("sketch", run, client)
        encrypted = self._cipher.encrypt(serialize_sketch(row), *place)

        def work(transaction: Transaction) -> bytes:
            sql = "INSERT INTO sketches VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            if transaction.change(sql, run, client, encrypted):
                transaction.note({"event": "sketch-rotated", **self._by, "run": run, "client": client})
                return encrypted
            known = transaction.row("SELECT sketch FROM sketches WHERE (run, client) = (?, ?)", run, client)
            return encrypted if known is None else known[0]

        return read_sketch(self._cipher.decrypt(self._store.run(work), *place))

    def keep_tag(self, round_: Round, tag: Tag) -> bool:
        """Keep a client's tag, if it is the first."""
        place, client = address_of(round_), tag.client
        without = replace(tag, blinding=None).to_bytes(round_)
        encrypted = self._cipher.encrypt(without, "tag", *place.all, client)
        blinded = None
        if tag.blinding is not None:
            blinded = self._cipher.encrypt(tag.to_bytes(round_), "blinded tag", *place.all, client)

        def work(transaction: Transaction) -> bool:
            sql = "INSERT INTO tags VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            require_going_on(transaction, place.run)
            late = _is_released(transaction, place) or left_behind(transaction, place) is not None
            kept = None if late else blinded  # who comes too late is in no sum
            if not transaction.change(sql, *place.all, client, encrypted, kept):
                return False
            transaction.note({"event": "tag-taken", **self._by, **facts_of(place), "client": client})
            return True

        return self._store.run(work)

    def tags(self, round_: Round) -> Mapping[int, Tag]:
        """All tags of the round, by client; of a round that was released, without their blinding seeds."""
        place = address_of(round_)
        sql = f"SELECT client, tag, blinded FROM tags {_ATTEMPT}"  # noqa: S608  (constants)
        rows = self._store.run(lambda transaction: transaction.rows(sql, *place.all))
        found = {}
        for client, encrypted, blinded in rows:
            kept, label = (encrypted, "tag") if blinded is None else (blinded, "blinded tag")
            found[client] = Tag.from_bytes(self._cipher.decrypt(kept, label, *place.all, client), round_)
        return found

    def tagged(self, round_: Round) -> list[int]:
        """Whose tags there are, ascending."""
        sql = f"SELECT client FROM tags {_ATTEMPT} ORDER BY client"  # noqa: S608  (constants)
        rows = self._store.run(lambda transaction: transaction.rows(sql, *address_of(round_).all))
        return [client for (client,) in rows]

    def was_released(self, round_: Round) -> bool:
        """Whether a sum of this round, at whatever attempt, was decrypted and verified."""
        return self._store.run(lambda transaction: _is_released(transaction, address_of(round_)))

    def keep_released(self, round_: Round, released: ReleasedSum) -> None:
        """Keep the sum with its audit line, and erase the blinding seeds of all attempts: all of it or nothing."""
        place = address_of(round_)
        rule = None
        if place.purpose == "model" and self._rule is not None:
            moved, state = self._moved_after(released, round_, self._rule)
            kept = serialize_moved(moved)
            if state:
                rule = self._cipher.encrypt(serialize("rule", {}, state), "rule", *place.round)
        else:
            kept = serialize_released(released, round_)
        result = self._cipher.encrypt(kept, "released", *place.round)
        who = ",".join(map(str, released.contributors))

        def work(transaction: Transaction) -> None:
            if _is_released(transaction, place):
                raise Rejected("this sum was decrypted already", code="already-decrypted")
            sql = f"UPDATE releases SET result = ?, contributors = ?, weight = ?, rule = ? {_OPENING}"  # noqa: S608  (constants)
            transaction.change(sql, result, who, released.weight, rule, *place.round)
            transaction.erase(f"UPDATE tags SET blinded = NULL {_OPENING}", *place.round)  # noqa: S608  (constants)
            facts = {**facts_of(place), "clients": list(released.contributors)}
            transaction.note({"event": "decrypted", **self._by, **facts})

        self._store.run(work)

    def _moved_after(
        self, released: ReleasedSum, round_: Round, by: ServerRule
    ) -> tuple[npt.NDArray[np.float32], dict[str, checks.FloatVector]]:
        """How far the cluster has moved, from where it was after its latest round that was released before this one."""
        sql = (
            "SELECT number, attempt, rule FROM releases WHERE (run, cluster, purpose) = (?, ?, 'model') AND number < ? "
            "AND result IS NOT NULL ORDER BY number DESC LIMIT 1"
        )
        where = (round_.run, round_.cluster, round_.number)
        latest = self._store.run(lambda transaction: transaction.row(sql, *where))
        before, state = None, dict[str, checks.FloatVector]()
        if latest is not None and round_.clip is not None:
            place = replace(address_of(round_), number=latest[0], attempt=latest[1])
            kept = self.result(place)
            before = None if kept is None else read_moved(kept, round_.size)
            if latest[2] is not None:
                _, state = parse_any(self._cipher.decrypt(latest[2], "rule", *place.round), "rule")
        return moved_after(before, released, round_, rule=by, state=state)

    def released(self, run: str, purpose: str) -> Sequence[Mapping[int, float]]:
        """Of every sum of the run and purpose that was released: its clients and their weights."""
        sql = (
            "SELECT contributors, description FROM releases JOIN rounds USING (run, number, cluster, purpose, attempt)"
            " WHERE (run, purpose) = (?, ?) AND result IS NOT NULL"
        )
        rows = self._store.run(lambda transaction: transaction.rows(sql, run, purpose))
        found = []
        for contributors, description in rows:
            weights = read_round(description).weights
            found.append({client: weights[client] for client in map(int, contributors.split(","))})
        return found

    def result(self, place: RoundAddress) -> bytes | None:
        """What came of the sum of that very attempt, if it was released: of a model, as it travels to members."""
        sql = f"SELECT result FROM releases {_OPENING} AND attempt = ?"  # noqa: S608  (constants)
        row = self._store.run(lambda transaction: transaction.row(sql, *place.all))
        if row is None or row[0] is None:
            return None
        return self._cipher.decrypt(row[0], "released", *place.round)

    @property
    def _by(self) -> dict[str, str]:
        return {"role": self._who.role, "name": self._who.name}

    def _release_ranking(self, run: str, cluster: int, row: tuple[int, bytes] | None) -> ImportanceOrder | None:
        if row is None:
            return None
        return read_importance_order(self._cipher.decrypt(row[1], "ranking", run, cluster, row[0]))


def _is_released(transaction: Transaction, place: RoundAddress) -> bool:
    # the clause is a constant; values are bound
    row = transaction.row(f"SELECT result IS NOT NULL FROM releases {_OPENING}", *place.round)  # noqa: S608
    return row is not None and bool(row[0])
