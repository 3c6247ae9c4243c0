"""The key server's ledger in the database; each change is written with its audit line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.checks import FloatVector
from sensecrypt.errors import Rejected
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.rounds import superseded_by
from sensecrypt.keyservice.http.runs import require_going_on
from sensecrypt.keyservice.http.storagecipher import StorageCipher
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.protocol import answers
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.messages import Tag
from sensecrypt.protocol.round import Round, RoundAddress, address_of, read_round
from sensecrypt.protocol.updates import FEDAVG, ReleasedSum, moved_after


class DatabaseLedger:
    """A `protocol.ledger.Ledger` for one request."""

    def __init__(
        self, store: Store, root: bytes, who: Identity, *, number: int = -1, rule: ServerRule | None = FEDAVG
    ) -> None:
        """A ledger whose audit lines name `who`.

        Args:
            store: the database.
            root: the secret that all seeds and the keys at rest are derived from.
            who: the sender of the request.
            number: of the round whose sensitivities give the importance orders that are kept.
            rule: by which a round's mean update moves a model; None: sums are kept as they are.
        """
        self._store, self._who, self._number, self._rule = store, who, number, rule
        self._cipher, self.root = StorageCipher(root), root

    def ranking(self, run: str, cluster: int) -> ImportanceOrder | None:
        """The cluster's latest importance order, if it has one."""
        sql = "SELECT number, ranking FROM rankings WHERE (run, cluster) = (?, ?) ORDER BY id DESC LIMIT 1"
        return self._decrypt_ranking(run, cluster, self._store.row(sql, run, cluster))

    def ranking_of(self, round_: Round) -> ImportanceOrder | None:
        """The order that was the latest when the round was registered."""
        sql = (
            "SELECT number, ranking FROM rankings WHERE id = (SELECT ranking FROM rounds"
            " WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?))"
        )
        return self._decrypt_ranking(round_.run, round_.cluster, self._store.row(sql, *address_of(round_).all))

    def keep_ranking(self, run: str, cluster: int, ranking: ImportanceOrder) -> None:
        """Keep a new order for the cluster; a second one of the same round is ignored."""
        place = (run, cluster, self._number)
        encrypted = self._cipher.encrypt(answers.serialize_importance_order(ranking), "ranking", *place)

        def work(transaction: Transaction) -> None:
            sql = "SELECT 1 FROM rankings WHERE (run, cluster, number) = (?, ?, ?)"
            if transaction.row(sql, *place) is None:
                sql = "INSERT INTO rankings (run, cluster, number, ranking) VALUES (?, ?, ?, ?)"
                transaction.change(sql, *place, encrypted)
                transaction.note("order-made", self._who, run=run, cluster=cluster, round=self._number)

        self._store.run(work)

    def keep_sketch(self, run: str, client: int, row: FloatVector) -> FloatVector:
        """Keep a client's sketch if it is the first; returns the one that is kept."""
        place = ("sketch", run, client)
        encrypted = self._cipher.encrypt(answers.serialize_sketch(row), *place)

        def work(transaction: Transaction) -> bytes:
            sql = "INSERT INTO sketches VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            if transaction.change(sql, run, client, encrypted):
                transaction.note("sketch-rotated", self._who, run=run, client=client)
            known = transaction.row("SELECT sketch FROM sketches WHERE (run, client) = (?, ?)", run, client)
            return encrypted if known is None else known[0]

        return answers.read_sketch(self._cipher.decrypt(self._store.run(work), *place))

    def keep_tag(self, round_: Round, tag: Tag) -> bool:
        """Keep a client's tag if it is the first; returns whether it is."""
        place, client = address_of(round_), tag.client
        without = replace(tag, blinding=None).to_bytes(round_)
        encrypted = self._cipher.encrypt(without, "tag", *place.all, client)
        blinded = None
        if tag.blinding is not None:
            blinded = self._cipher.encrypt(tag.to_bytes(round_), "blinded tag", *place.all, client)

        def work(transaction: Transaction) -> bool:
            require_going_on(transaction, place.run)
            late = _is_released(transaction, place) or superseded_by(transaction, place) is not None
            kept = None if late else blinded  # a client that is late is in no sum
            sql = "INSERT INTO tags VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            if not transaction.change(sql, *place.all, client, encrypted, kept):
                return False
            transaction.note("tag-taken", self._who, place, client=client)
            return True

        return self._store.run(work)

    def tags(self, round_: Round) -> Mapping[int, Tag]:
        """All tags of the round, by client; of a round that was released, without their blinding seeds."""
        place = address_of(round_)
        sql = "SELECT client, tag, blinded FROM tags WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
        found = {}
        for client, encrypted, blinded in self._store.rows(sql, *place.all):
            kept, label = (encrypted, "tag") if blinded is None else (blinded, "blinded tag")
            found[client] = Tag.from_bytes(self._cipher.decrypt(kept, label, *place.all, client), round_)
        return found

    def tagged(self, round_: Round) -> list[int]:
        """The clients whose tags have arrived, ascending."""
        sql = "SELECT client FROM tags WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?) ORDER BY client"
        return [client for (client,) in self._store.rows(sql, *address_of(round_).all)]

    def was_released(self, round_: Round) -> bool:
        """Whether a sum of this round, at any attempt, was decrypted and verified."""
        return self._store.run(lambda transaction: _is_released(transaction, address_of(round_)))

    def keep_released(self, round_: Round, released: ReleasedSum) -> None:
        """Keep the sum with its audit line and erase the blinding seeds of all attempts, atomically."""
        place, state = address_of(round_), None
        if place.purpose == "model" and self._rule is not None:
            moved, after = self._moved_after(released, round_, self._rule)
            kept = answers.serialize_moved(moved)
            if after:
                state = self._cipher.encrypt(serialize("rule", {}, after), "rule", *place.round)
        else:
            kept = answers.serialize_released(released, round_)
        result = self._cipher.encrypt(kept, "released", *place.round)
        contributors = ",".join(map(str, released.contributors))

        def work(transaction: Transaction) -> None:
            if _is_released(transaction, place):
                raise Rejected("this sum was decrypted already", code="already-decrypted")
            sql = (
                "UPDATE releases SET result = ?, contributors = ?, weight = ?, rule = ?"
                " WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
            )
            transaction.change(sql, result, contributors, released.weight, state, *place.round)
            sql = "UPDATE tags SET blinded = NULL WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
            transaction.erase(sql, *place.round)
            transaction.note("decrypted", self._who, place, clients=list(released.contributors))

        self._store.run(work)

    def released(self, run: str, purpose: str) -> Sequence[Mapping[int, float]]:
        """The clients and weights of every released sum of the run and purpose."""
        sql = (
            "SELECT contributors, description FROM releases JOIN rounds USING (run, number, cluster, purpose, attempt)"
            " WHERE (run, purpose) = (?, ?) AND result IS NOT NULL"
        )
        found = []
        for contributors, description in self._store.rows(sql, run, purpose):
            weights = read_round(description).weights
            found.append({client: weights[client] for client in map(int, contributors.split(","))})
        return found

    def result(self, place: RoundAddress) -> bytes | None:
        """The kept result of this attempt, if it was released; a model is serialized as members receive it."""
        sql = "SELECT result FROM releases WHERE (run, number, cluster, purpose, attempt) = (?, ?, ?, ?, ?)"
        row = self._store.row(sql, *place.all)
        if row is None or row[0] is None:
            return None
        return self._cipher.decrypt(row[0], "released", *place.round)

    def _moved_after(
        self, released: ReleasedSum, round_: Round, rule: ServerRule
    ) -> tuple[npt.NDArray[np.float32], dict[str, FloatVector]]:
        """How far the cluster has moved after this round, and the rule's new state, from its latest round before."""
        sql = (
            "SELECT number, attempt, rule FROM releases WHERE (run, cluster, purpose) = (?, ?, 'model') AND number < ? "
            "AND result IS NOT NULL ORDER BY number DESC LIMIT 1"
        )
        latest = self._store.row(sql, round_.run, round_.cluster, round_.number)
        before, state = None, dict[str, FloatVector]()
        if latest is not None and round_.clip is not None:
            place = replace(address_of(round_), number=latest[0], attempt=latest[1])
            kept = self.result(place)
            before = None if kept is None else answers.read_moved(kept, round_.size)
            if latest[2] is not None:
                _, state = parse_any(self._cipher.decrypt(latest[2], "rule", *place.round), "rule")
        return moved_after(before, released, round_, rule=rule, state=state)

    def _decrypt_ranking(self, run: str, cluster: int, row: tuple[int, bytes] | None) -> ImportanceOrder | None:
        if row is None:
            return None
        return answers.read_importance_order(self._cipher.decrypt(row[1], "ranking", run, cluster, row[0]))


def _is_released(transaction: Transaction, place: RoundAddress) -> bool:
    sql = "SELECT result IS NOT NULL FROM releases WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
    row = transaction.row(sql, *place.round)
    return row is not None and bool(row[0])
