"""Which sum of a round may enter decryption: one at a time, one in all, and few that fail.

The claim is on disk before decryption starts. After a crash the same sum may be sent again, and no other: so of all
sums of an attempt, one is decrypted, or several of which all but the last were refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.registry import facts_of, left_behind, require_going_on
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.protocol.answers import Acknowledgement
from sensecrypt.protocol.round import RoundAddress

_NEW = "INSERT INTO releases (run, number, cluster, purpose) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_OPENING = "WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"


@dataclass(frozen=True)
class Releases:
    """The claims of all rounds.

    Attributes:
        store: where they are.
        failures: how many of a round's sums may fail after decryption.
        run_failures: how many of a run's: each answers one question about what was sent.
    """

    store: Store
    failures: int
    run_failures: int

    def claim(self, place: RoundAddress, digest: bytes, who: Identity) -> Acknowledgement | None:
        """Enter decryption with the sum of that hash; what came out if this very sum was released before."""

        def work(transaction: Transaction) -> Acknowledgement | None:
            transaction.change(_NEW, *place.round)
            # the clause is a constant; values are bound
            sql = f"SELECT attempt, digest, failures, contributors, weight FROM releases {_OPENING}"  # noqa: S608
            attempt, known, failures, contributors, weight = transaction.row(sql, *place.round) or (None,) * 5
            if contributors is not None:
                if (attempt, known) == (place.attempt, digest):
                    return Acknowledgement(tuple(int(each) for each in contributors.split(",")), weight)
                raise refused("already-decrypted", "another sum of this round was decrypted already")
            require_going_on(transaction, place.run)
            if reason := left_behind(transaction, place):
                raise refused("superseded", reason)
            if failures >= self.failures:
                raise refused("too-many-failures", f"{failures} sums of this round have failed")
            failed = (transaction.row("SELECT sum(failures) FROM releases WHERE run = ?", place.run) or (0,))[0]
            if failed >= self.run_failures:
                raise refused("run-closed", f"{failed} sums of this run have failed")
            if attempt == place.attempt and known not in (None, digest):
                raise refused("claimed", "another sum of this attempt entered decryption and was not refused")
            if (attempt, known) != (place.attempt, digest):
                sql = f"UPDATE releases SET attempt = ?, digest = ? {_OPENING}"  # noqa: S608  (constants)
                transaction.change(sql, place.attempt, digest, *place.round)
                facts = {**facts_of(place), "digest": digest.hex()}
                transaction.note({"event": "sum-claimed", "role": who.role, "name": who.name, **facts})
            return None

        return self.store.run(work)

    def release(self, place: RoundAddress, *, failed: bool) -> None:
        """The sum was refused: another may come; it counts if it was refused after decryption."""
        sql = f"UPDATE releases SET digest = NULL, failures = failures + ? {_OPENING}"  # noqa: S608  (constants)
        self.store.run(lambda transaction: transaction.change(sql, int(failed), *place.round))
