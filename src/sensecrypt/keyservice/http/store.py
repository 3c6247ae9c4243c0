"""The service's state: a SQLite database and the audit log, written together by one thread.

Whatever is asked for at the same time is committed together: two flushes to disk, not two for each. A caller is
answered only after both.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sensecrypt.errors import AuditFailed, ServiceError
from sensecrypt.keyservice.http import audit, schema
from sensecrypt.keyservice.http.audit import Facts, Head
from sensecrypt.keyservice.http.problems import refused

T = TypeVar("T")
_log = logging.getLogger("sensecrypt.dkms")
_BUSY_SECONDS = 0.5
_MOST = 256  # requests in one commit
_TRIES, _PAUSE = 5, 0.1  # of a write that fails, as for want of descriptors; seconds before the second, then twice it
_CLOCK_SLACK = timedelta(minutes=5)


_Outcome = tuple[Any, BaseException | None]


class Transaction:
    """What a piece of work may do: read and change the database, and write down what it did."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Nothing noted yet."""
        self._connection = connection
        self.notes: list[Facts] = []
        self.erases = False

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """The only row of a query, or None."""
        found: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
        return found

    def change(self, sql: str, *values: object) -> int:
        """Execute a statement; how many rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def erase(self, sql: str, *values: object) -> None:
        """Execute a statement that deletes something secret: it is gone from the write-ahead log, too."""
        self.erases = self.change(sql, *values) > 0 or self.erases

    def note(self, facts: Facts) -> None:
        """An audit line, written if and only if the changes are."""
        self.notes.append(facts)


_Job = tuple[Callable[[Transaction], Any], Future[Any]]


class Store:
    """Runs pieces of work one after another, each whole or not at all."""

    def __init__(self, database: Path, log: Path) -> None:
        """Open both, and finish what a crash interrupted."""
        self._database, self._log = database, log
        self._connection = connect(database)
        try:
            self._head = _recover(self._connection, log)
            self._file = audit.LogFile(log)
        except BaseException:
            self._connection.close()
            raise
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._broken = self._closed = False
        self._entering = threading.Lock()  # after the last job nobody enters
        self._waits = False  # lines in the database that are in the file by now
        self._log_is_due = True  # a crash may have left in it what was erased from the database
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> bool:
        """Whether a write has failed: nothing is granted any more."""
        return self._broken

    @property
    def head(self) -> Head:
        """The audit log's last line."""
        return self._head

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Do a piece of work and wait until it is on disk; what it raises undoes it and is raised here."""
        future: Future[T] = Future()
        with self._entering:
            if self._closed:
                raise refused("storage", "the service is stopping")
            self._queue.put((work, future))
        return future.result()

    def note(self, facts: Facts) -> None:
        """An audit line of its own."""
        self.run(lambda transaction: transaction.note(facts))

    def close(self) -> None:
        """Finish what was asked for, and close the files."""
        with self._entering:
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._connection.close()
        self._file.close()

    def _work(self) -> None:
        going = True
        while going:
            jobs = [self._queue.get()]
            while len(jobs) < _MOST and jobs[-1] is not None:
                try:
                    jobs.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            going = jobs[-1] is not None
            self._commit([job for job in jobs if job is not None])

    def _commit(self, jobs: list[_Job]) -> None:
        """All jobs in one commit; each is answered after it, with its own result or exception."""
        try:
            if self._broken:
                raise sqlite3.OperationalError("an earlier write failed")
            outcomes, lines = _again(lambda: self._change([work for work, _ in jobs]))
            if lines:
                self._waits = True
                _again(lambda: self._file.append(lines))
            _again(self._tidy)
        except Exception as cause:  # whatever it is, callers must hear of it
            if not self._broken:
                _log.error("the state cannot be written (%s): the service ends", type(cause).__name__)
            self._broken = True  # file and database may differ now: only a restart, which repairs, may write again
            outcomes = [(None, refused("storage", "the service cannot write its state"))] * len(jobs)
        for (_, future), (result, error) in zip(jobs, outcomes, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _change(self, works: list[Callable[[Transaction], Any]]) -> tuple[list[_Outcome], list[str]]:
        """The database's part: what comes of each work, and the lines that are due; all on disk, or nothing."""
        head, lines, outcomes, erases = self._head, list[tuple[int, str]](), list[_Outcome](), False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work in works:
                result, error, notes, erased = self._attempt(work)
                erases = erases or erased
                for facts in notes:
                    line, head = audit.next_line(head, facts, datetime.now(UTC))
                    lines.append((head.number, line))
                outcomes.append((result, error))
            if lines:
                self._connection.executemany("INSERT INTO audit_waiting VALUES (?, ?)", lines)
                self._connection.execute("UPDATE audit_head SET number = ?, digest = ?", (head.number, head.digest))
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._head = head
        self._log_is_due = self._log_is_due or erases
        return outcomes, [line for _, line in lines]

    def _tidy(self) -> None:
        """The lines are in the file; what was erased goes from the write-ahead log, too."""
        if self._waits:
            _forget_waiting(self._connection)
            self._waits = False
        if self._log_is_due:  # somebody who reads the database may be in the way: then after the next commit
            [busy, *_] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._log_is_due = bool(busy)

    def _attempt(self, work: Callable[[Transaction], Any]) -> tuple[Any, BaseException | None, list[Facts], bool]:
        transaction = Transaction(self._connection)
        self._connection.execute("SAVEPOINT job")
        try:
            result = work(transaction)
        except sqlite3.OperationalError:
            raise
        except Exception as error:
            self._connection.execute("ROLLBACK TO job")
            return None, error, [], False
        finally:
            if self._connection.in_transaction:
                self._connection.execute("RELEASE job")
        return result, None, transaction.notes, transaction.erases


def _again(write: Callable[[], T]) -> T:
    """Try it again if it fails for want of something that may come back."""
    for attempt in range(_TRIES - 1):
        try:
            return write()
        except (OSError, sqlite3.OperationalError):
            time.sleep(_PAUSE * 2**attempt)
    return write()


def connect(database: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """The database of a service's folder, of this version."""
    if not database.is_file():
        raise ServiceError(str(database.parent), "is no folder of a key service", "run: sensecrypt dkms init")
    try:
        mode = "?mode=ro" if read_only else ""
        connection = sqlite3.connect(
            f"{database.resolve().as_uri()}{mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_SECONDS,
        )
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version == schema.VERSION and not read_only:  # of another version, nothing is changed
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = MEMORY")  # no further descriptors
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # blindings that are forgotten do not stay in free pages
    except sqlite3.Error:
        raise ServiceError(str(database), "is damaged", "restore it from a backup") from None
    if version != schema.VERSION:
        connection.close()
        problem = f"is of version {version}, this program writes version {schema.VERSION}"
        fix = "use the version of sensecrypt that wrote it, or make a new folder for new runs: sensecrypt dkms init"
        raise ServiceError(str(database), problem, fix)
    return connection


def stored_head(connection: sqlite3.Connection) -> Head:
    """The head of the audit log as the database knows it."""
    return Head(*connection.execute("SELECT number, digest FROM audit_head").fetchone())


def waiting_lines(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    """Lines that may have missed the file, by number."""
    return connection.execute("SELECT number, line FROM audit_waiting ORDER BY number").fetchall()


def _recover(connection: sqlite3.Connection, log: Path) -> Head:
    """Append the lines that a crash kept from the file, and check the whole of it; its head."""
    try:
        audit.repair(log, waiting_lines(connection))
    except OSError as error:
        raise AuditFailed(str(log), f"cannot be written ({error.strerror})", audit.RESTORE) from None
    _forget_waiting(connection)
    stored = stored_head(connection)
    head, last = audit.verify_chain(audit.read_lines(log), log=log, known=[stored])
    if head != stored:
        raise audit.added_lines(log, head, stored)
    _check_clock(last)
    return head


def _forget_waiting(connection: sqlite3.Connection) -> None:
    """They are in the file now. Not flushed: if that is lost, they only wait once more."""
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("DELETE FROM audit_waiting")
    connection.execute("PRAGMA synchronous = FULL")


def _check_clock(last: str | None) -> None:
    if last is None:
        return
    now, latest = datetime.now(UTC), datetime.fromisoformat(last)
    if latest > now + _CLOCK_SLACK:
        problem = f"says {now:%Y-%m-%d %H:%M} UTC, the audit log was last written at {latest:%Y-%m-%d %H:%M}"
        raise ServiceError("this machine's clock", problem, "set it (NTP), or wait until it is later than the log")
