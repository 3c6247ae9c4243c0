"""The folder of a key service: `dkms init` makes it, one process at a time locks it, `dkms audit` checks it.

`root.json` and `keys/` are encrypted under the passphrase, `state.db` holds the state, `audit.log` is the audit log,
and `policy.toml` has the operator's limits. A backup is a copy of all of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http import audit, policy, schema, storagecipher, store
from sensecrypt.keyservice.http.audit import Head

_LOOKS = 5  # tries, as a running service may write between two reads


class Folder:
    """Paths of a service's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root, self.database = path / "root.json", path / "state.db"
        self.log, self.policy = path / "audit.log", path / "policy.toml"

    def key(self, run: str) -> Path:
        """The key pair of a run, encrypted."""
        return self.path / "keys" / f"{run}.json"

    def create(self, passphrase: str) -> Head:
        """Create all files; if that fails, the folder is removed."""
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
            state = store.Store(self.database, self.log)
            state.note("initialised")
            state.close()
        except BaseException:
            shutil.rmtree(self.path)
            raise
        return state.head

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder: two services on one state could decrypt a sum twice."""
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
    """Check the chain of the log, and compare it with the database and a noted head; also while a service runs.

    Returns the head, and the number of lines that wait in the database for the next start.
    """
    with contextlib.closing(store.connect(folder.database, read_only=True)) as connection:
        for look in range(_LOOKS):
            waiting, stored = _snapshot(connection)
            known = [head for head in (stored, noted) if head is not None]
            in_file = 0

            def lines(waiting: list[tuple[int, str]] = waiting) -> Iterator[str]:
                nonlocal in_file
                for line in audit.read_lines(folder.log):
                    in_file += 1
                    yield line
                yield from (line for number, line in waiting if number > in_file)

            head, _ = audit.verify_chain(lines(), log=folder.log, known=known)
            if head == stored or head == _snapshot(connection)[1]:
                return head, head.number - in_file
            time.sleep(0.1 * (look + 1))
    raise audit.added_lines(folder.log, head, stored)


def _snapshot(connection: sqlite3.Connection) -> tuple[list[tuple[int, str]], Head]:
    """Waiting lines and head at one moment."""
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
