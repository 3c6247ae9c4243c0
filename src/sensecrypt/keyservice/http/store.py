"""The service's state: a SQLite database and the audit log, written together by one thread.

Requests that arrive at the same time are committed together, with two flushes to disk for all of them. Callers are
answered after both.
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
from sensecrypt.keyservice.http.audit import Fact, Facts, Head
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.protocol.round import RoundAddress

T = TypeVar("T")
_log = logging.getLogger("sensecrypt.dkms")
_BUSY_SECONDS = 0.5
_MOST = 256  # requests in one commit
_TRIES, _PAUSE = 5, 0.1  # of a write that fails, such as for lack of descriptors; seconds, doubled after each try
_CLOCK_SLACK = timedelta(minutes=5)

_Outcome = tuple[Any, BaseException | None]


class Transaction:
    """Reads and changes the database, and adds audit lines."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.notes: list[Facts] = []
        self.erases = False

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        found: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
        return found

    def change(self, sql: str, *values: object) -> int:
        """Execute a statement; returns how many rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def erase(self, sql: str, *values: object) -> None:
        """Execute a statement that deletes a secret: it is removed from the write-ahead log, too."""
        self.erases = self.change(sql, *values) > 0 or self.erases

    def note(self, event: str, who: Identity | None = None, at: RoundAddress | None = None, /, **facts: Fact) -> None:
        """Add an audit line, written if and only if the changes are."""
        by: Facts = {} if who is None else {"role": who.role, "name": who.name}
        if at is not None:
            by |= {"run": at.run, "round": at.number, "cluster": at.cluster}
            by |= {"purpose": at.purpose, "attempt": at.attempt}
        self.notes.append({"event": event, **by, **facts})


_Job = tuple[Callable[[Transaction], Any], Future[Any]]


class Store:
    """Executes functions of a transaction one after another, each atomically."""

    def __init__(self, database: Path, log: Path) -> None:
        """Open both files, and complete writes that a crash interrupted."""
        self._connection = connect(database)
        try:
            self._head = _recover(self._connection, log)
            self._file = audit.LogFile(log)
        except BaseException:
            self._connection.close()
            raise
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._broken = self._closed = False
        self._entering = threading.Lock()  # no job enters after the last one
        self._waits = False  # whether the database still has lines that are in the file
        self._log_is_due = True  # a crash may have left erased values in the write-ahead log
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> bool:
        """Whether a write has failed; then all requests are refused."""
        return self._broken

    @property
    def head(self) -> Head:
        """The audit log's last line."""
        return self._head

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Execute `work` and wait until its changes are on disk; an exception undoes them and is raised here."""
        future: Future[T] = Future()
        with self._entering:
            if self._closed:
                raise refused("storage", "the service is stopping")
            self._queue.put((work, future))
        return future.result()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self.run(lambda transaction: transaction.rows(sql, *values))

    def row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        return self.run(lambda transaction: transaction.row(sql, *values))

    def note(self, event: str, who: Identity | None = None, at: RoundAddress | None = None, /, **facts: Fact) -> None:
        """Add an audit line without a change."""
        self.run(lambda transaction: transaction.note(event, who, at, **facts))

    def close(self) -> None:
        """Finish the waiting jobs, and close the files."""
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
        """Do all jobs in one commit; each is answered after it, with its own result or exception."""
        try:
            if self._broken:
                raise sqlite3.OperationalError("an earlier write failed")
            outcomes, lines = _again(lambda: self._change([work for work, _ in jobs]))
            if lines:
                self._waits = True
                _again(lambda: self._file.append(lines))
            _again(self._tidy)
        except Exception as cause:  # of any kind, as callers wait for an answer
            if not self._broken:
                _log.error("the state cannot be written (%s): the service ends", type(cause).__name__)
            self._broken = True  # file and database may differ now: a restart repairs them
            outcomes = [(None, refused("storage", "the service cannot write its state"))] * len(jobs)
        for (_, future), (result, error) in zip(jobs, outcomes, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _change(self, works: list[Callable[[Transaction], Any]]) -> tuple[list[_Outcome], list[str]]:
        """Change the database atomically; returns the outcome of each function, and the audit lines."""
        head, lines, outcomes, erases = self._head, list[tuple[int, str]](), list[_Outcome](), False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work in works:
                outcome, transaction = self._attempt(work)
                erases = erases or transaction.erases
                for facts in transaction.notes:
                    line, head = audit.next_line(head, facts, datetime.now(UTC))
                    lines.append((head.number, line))
                outcomes.append(outcome)
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

    def _attempt(self, work: Callable[[Transaction], Any]) -> tuple[_Outcome, Transaction]:
        """Execute one function; if it fails, its changes and audit lines are undone."""
        transaction = Transaction(self._connection)
        self._connection.execute("SAVEPOINT job")
        try:
            return (work(transaction), None), transaction
        except sqlite3.OperationalError:
            raise
        except Exception as error:
            self._connection.execute("ROLLBACK TO job")
            return (None, error), Transaction(self._connection)
        finally:
            if self._connection.in_transaction:
                self._connection.execute("RELEASE job")

    def _tidy(self) -> None:
        """Forget lines that are in the file, and truncate the write-ahead log if it has erased values."""
        if self._waits:
            _forget_waiting(self._connection)
            self._waits = False
        if self._log_is_due:  # a reader of the database may prevent it: then it is tried after the next commit
            [busy, *_] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._log_is_due = bool(busy)


def _again(write: Callable[[], T]) -> T:
    """Repeat a write that fails for lack of a resource that may become free."""
    for attempt in range(_TRIES - 1):
        try:
            return write()
        except (OSError, sqlite3.OperationalError):
            time.sleep(_PAUSE * 2**attempt)
    return write()


def connect(database: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the database of a service's folder, if it is of this version."""
    if not database.is_file():
        raise ServiceError(str(database.parent), "is no folder of a key service", "run: sensecrypt dkms init")
    try:
        address = f"{database.resolve().as_uri()}{'?mode=ro' if read_only else ''}"
        options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False, "timeout": _BUSY_SECONDS}
        connection: sqlite3.Connection = sqlite3.connect(address, uri=True, **options)
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version == schema.VERSION and not read_only:  # a database of another version is not changed
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = MEMORY")  # no further descriptors
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # erased seeds do not stay in free pages
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
    """Lines that the file may lack, by number."""
    return connection.execute("SELECT number, line FROM audit_waiting ORDER BY number").fetchall()


def _recover(connection: sqlite3.Connection, log: Path) -> Head:
    """Append the lines that the file lacks after a crash, and check the whole file; returns its head."""
    try:
        audit.repair(log, waiting_lines(connection))
    except OSError as error:
        raise AuditFailed(str(log), f"cannot be written ({error.strerror})", audit.RESTORE) from None
    _forget_waiting(connection)
    stored = stored_head(connection)
    head, last = audit.verify_chain(audit.read_lines(log), log=log, known=[stored])
    if head != stored:
        raise audit.added_lines(log, head, stored)
    now, latest = datetime.now(UTC), None if last is None else datetime.fromisoformat(last)
    if latest is not None and latest > now + _CLOCK_SLACK:
        problem = f"says {now:%Y-%m-%d %H:%M} UTC, the audit log was last written at {latest:%Y-%m-%d %H:%M}"
        raise ServiceError("this machine's clock", problem, "set it (NTP), or wait until it is later than the log")
    return head


def _forget_waiting(connection: sqlite3.Connection) -> None:
    """Delete lines that are in the file, without a flush: if a crash undoes this, they are deleted later."""
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("DELETE FROM audit_waiting")
    connection.execute("PRAGMA synchronous = FULL")
