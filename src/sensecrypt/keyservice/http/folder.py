"""The folder of a key service: made by `dkms init`, held by one process at a time, checked by `dkms audit`.

`root.json` and `keys/` are encrypted under the passphrase, `state.db` holds everything else, `audit.log` tells what
happened, and `policy.toml` says what is allowed. A backup is a copy of all of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http import audit, policy, schema, storagecipher, store
from sensecrypt.keyservice.http.audit import Head

_LOOKS = 5  # at a log that a running service writes to


@dataclass(frozen=True)
class Folder:
    """Where everything is."""

    path: Path

    @property
    def root(self) -> Path:
        """The root of all seeds, encrypted."""
        return self.path / "root.json"

    @property
    def database(self) -> Path:
        """The state."""
        return self.path / "state.db"

    @property
    def log(self) -> Path:
        """The audit log."""
        return self.path / "audit.log"

    @property
    def policy(self) -> Path:
        """The operator's limits."""
        return self.path / "policy.toml"

    def key(self, run: str) -> Path:
        """The key pair of a run, encrypted."""
        return self.path / "keys" / f"{run}.json"

    def create(self, passphrase: str) -> Head:
        """Make everything; a folder that could not be finished is removed."""
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            raise ServiceError(str(self.path), "exists already", "choose another folder") from None
        except OSError as error:
            raise ServiceError(str(self.path), f"cannot be made ({error.strerror})", "check the path") from None
        try:
            (self.path / "keys").mkdir(mode=0o700)
            self.policy.write_text(policy.DEFAULT_TEXT, encoding="utf-8")
            storagecipher.create_root(self.root, passphrase)
            _create_database(self.database)
            self.log.touch(mode=0o600)
            released = store.Store(self.database, self.log)
            released.note({"event": "initialised"})
            released.close()
        except BaseException:
            shutil.rmtree(self.path)
            raise
        return released.head

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder: two services on one state would decrypt twice."""
        if not self.database.is_file():
            raise ServiceError(str(self.path), "is no folder of a key service", "run: sensecrypt dkms init")
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ServiceError(str(self.path), "is in use by another key service", "end that one first") from None
            yield
        finally:
            os.close(handle)


def verify_log(folder: Folder, *, noted: Head | None = None) -> tuple[Head, int]:
    """Check the log against itself, the database, and a head that was noted before; also while a service runs.

    Returns:
        The head, and how many lines wait in the database for the next start.
    """
    with contextlib.closing(store.connect(folder.database, read_only=True)) as connection:
        for look in range(_LOOKS):
            waiting, stored = _snapshot(connection)
            known = [head for head in (stored, noted) if head is not None]
            lines = _Lines(folder.log, waiting)
            head, _ = audit.verify_chain(iter(lines), log=folder.log, known=known)
            if head == stored or head == _snapshot(connection)[1]:
                return head, head.number - lines.in_file
            time.sleep(0.1 * (look + 1))
    raise audit.added_lines(folder.log, head, stored)


class _Lines:
    """The lines of a log, and after them those that wait in the database; `in_file` counts the former."""

    def __init__(self, log: Path, waiting: list[tuple[int, str]]) -> None:
        self._log, self._waiting, self.in_file = log, waiting, 0

    def __iter__(self) -> Iterator[str]:
        for line in audit.read_lines(self._log):
            self.in_file += 1
            yield line
        yield from (line for number, line in self._waiting if number > self.in_file)


def _snapshot(connection: sqlite3.Connection) -> tuple[list[tuple[int, str]], Head]:
    """Waiting lines and head, of one moment."""
    connection.execute("BEGIN")
    try:
        return store.waiting_lines(connection), store.stored_head(connection)
    finally:
        connection.execute("ROLLBACK")


def _create_database(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode = WAL; BEGIN; {schema.TABLES} COMMIT;")
        connection.execute("INSERT INTO audit_head VALUES (1, ?, ?)", (Head().number, Head().digest))
        connection.commit()
