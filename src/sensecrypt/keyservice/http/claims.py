"""Limits the sums of a round that are decrypted: one at a time, one that is released, and few that fail.

A sum claims its round on disk before decryption starts; after a crash only this sum may be sent again. So of all sums
of an attempt one is decrypted, or several of which all but the last were refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.rounds import superseded_by
from sensecrypt.keyservice.http.runs import require_going_on
from sensecrypt.keyservice.http.store import Store, Transaction
from sensecrypt.protocol.answers import Acknowledgement
from sensecrypt.protocol.round import RoundAddress


@dataclass(frozen=True)
class Claims:
    """The claims of all rounds."""

    store: Store  # the database
    failures: int  # how many sums of a round may fail after decryption
    run_failures: int  # the same of a run: each failure reveals something about the uploads

    def claim(self, place: RoundAddress, digest: bytes, who: Identity) -> Acknowledgement | None:
        """Claim the round for the sum of that hash; returns its acknowledgement if this sum was released before."""

        def work(transaction: Transaction) -> Acknowledgement | None:
            sql = "INSERT INTO releases (run, number, cluster, purpose) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            transaction.change(sql, *place.round)
            sql = (
                "SELECT attempt, digest, failures, contributors, weight FROM releases"
                " WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
            )
            attempt, known, failures, contributors, weight = transaction.row(sql, *place.round) or (None,) * 5
            if contributors is not None:
                if (attempt, known) == (place.attempt, digest):
                    return Acknowledgement(tuple(int(each) for each in contributors.split(",")), weight)
                raise refused("already-decrypted", "another sum of this round was decrypted already")
            require_going_on(transaction, place.run)
            if reason := superseded_by(transaction, place):
                raise refused("superseded", reason)
            if failures >= self.failures:
                raise refused("too-many-failures", f"{failures} sums of this round have failed")
            failed = (transaction.row("SELECT sum(failures) FROM releases WHERE run = ?", place.run) or (0,))[0]
            if failed >= self.run_failures:
                raise refused("run-closed", f"{failed} sums of this run have failed")
            if attempt == place.attempt and known not in (None, digest):
                raise refused("claimed", "another sum of this attempt entered decryption and was not refused")
            if (attempt, known) != (place.attempt, digest):
                sql = "UPDATE releases SET attempt = ?, digest = ? WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
                transaction.change(sql, place.attempt, digest, *place.round)
                transaction.note("sum-claimed", who, place, digest=digest.hex())
            return None

        return self.store.run(work)

    def give_up(self, place: RoundAddress, *, failed: bool) -> None:
        """Give up the claim of a sum that was refused; it counts as a failure if that was after decryption."""
        sql = (
            "UPDATE releases SET digest = NULL, failures = failures + ?"
            " WHERE (run, number, cluster, purpose) = (?, ?, ?, ?)"
        )
        self.store.run(lambda transaction: transaction.change(sql, int(failed), *place.round))
