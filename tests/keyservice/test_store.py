"""The store when something fails: writes are tried again, else the service ends, and nobody waits for ever."""

from __future__ import annotations

import errno
import resource
import signal
import threading

import pytest

from sensecrypt.errors import Refused, SenseCryptError
from sensecrypt.keyservice.http import audit
from sensecrypt.keyservice.http.folder import Folder, verify_log
from sensecrypt.keyservice.http.store import Store
from sensecrypt.protocol.round import address_of
from tests.keyservice.conftest import PASSPHRASE, make_server
from tests.keyservice.rounds import Played


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(tmp_path / "service")
    made.create(PASSPHRASE)
    return made


def test_a_write_that_fails_for_want_of_descriptors_is_tried_again(folder, monkeypatch):
    store, left, append = Store(folder.database, folder.log), [2], audit.LogFile.append

    def failing(self, lines):
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        append(self, lines)

    monkeypatch.setattr(audit.LogFile, "append", failing)
    store.note("test")
    assert not store.broken
    store.close()
    assert verify_log(folder) == (store.head, 0)


def test_a_log_that_was_written_in_part_is_cut_back(folder, monkeypatch):
    file, before = audit.LogFile(folder.log), folder.log.read_bytes()
    monkeypatch.setattr(audit.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        file.append(["a line"])
    file.close()
    assert folder.log.read_bytes() == before


def test_whoever_asks_while_the_store_closes_is_answered(folder, monkeypatch):
    store = Store(folder.database, folder.log)
    put, closing = store._queue.put, threading.Thread(target=store.close)

    class Queue:
        get, get_nowait = store._queue.get, store._queue.get_nowait

        def put(self, job) -> None:
            if job is not None:  # the worst moment: after the look at whether it is closed
                closing.start()
                closing.join(0.5)
            put(job)

    monkeypatch.setattr(store, "_queue", Queue())
    asking = threading.Thread(target=lambda: store.note("test"), daemon=True)
    asking.start()
    asking.join(5)
    assert not asking.is_alive()
    closing.join(5)
    with pytest.raises(Refused, match="stopping"):
        store.note("test")


def test_a_service_that_cannot_write_ends_and_starts_again(tmp_path, pki):
    server = make_server(tmp_path / "service", pki).start()
    played = Played(server)
    round_ = played.register(played.round())
    size = server.folder.log.stat().st_size
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    assert before[1] == resource.RLIM_INFINITY
    with played.client(0, tries=1) as client, pytest.raises(SenseCryptError):
        client.task(address_of(round_))
    assert server.process.wait(timeout=20) == 2
    assert "cannot be written to; check its disk, and start the service again" in server.stderr()
    server.process.stdout.close()
    server.start()
    with played.client(0) as client:
        client.task(address_of(round_))
    assert server.end(signal.SIGTERM) == 0
    verify_log(server.folder)
