"""Every ledger keeps the same promises: the one in memory and the one in the database."""

from __future__ import annotations

import logging
import shutil
import threading

import numpy as np
import pytest

from sensecrypt.errors import Rejected, ServiceError
from sensecrypt.keyservice.http import sealing
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.http.ledger import DatabaseLedger
from sensecrypt.keyservice.http.limits import Buckets, Thinned, thin_messages
from sensecrypt.keyservice.http.openings import Openings
from sensecrypt.keyservice.http.registry import Registry, place_of
from sensecrypt.keyservice.http.sealing import Sealer
from sensecrypt.keyservice.http.store import Store
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.ledger import Ledger, MemoryLedger, Ranking
from sensecrypt.protocol.messages import Receipt
from sensecrypt.protocol.opened import Opened
from sensecrypt.protocol.pads import new_pad
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

WHO = Identity("client", "phone-0")


def a_round(number: int = 0, *, purpose: str = "model", attempt: int = 0) -> Round:
    return Round("run", number, 0, purpose, 4, get_profile("insecure-test"), {0: 0.5, 1: 0.5}, attempt)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(sealing, "create_root", lambda path, passphrase: path.write_text("{}"))
    folder = Folder(tmp_path / "service")
    folder.create("correct horse")
    store = Store(folder.database, folder.log)
    yield store
    store.close()


@pytest.fixture(params=["memory", "database"])
def ledger(request, store) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    registry = Registry(store)
    for number in (0, 1):
        registry.add_round(a_round(number), WHO)
        Openings(store, 3, 12).claim(place_of(a_round(number)), b"digest", WHO)
    return DatabaseLedger(store, bytes(32), WHO)


def ranking(*order: int) -> Ranking:
    return Ranking(np.array(order), np.array([1.0]))


def test_receipts_are_kept_once_a_client_and_by_round(ledger):
    padded = Receipt(1, 7, 5, new_pad(Mask([False], 4, 4)))
    assert ledger.keep_receipt(a_round(1), Receipt(0, 2**61 - 2, 5))
    assert not ledger.keep_receipt(a_round(1), Receipt(0, 2**61 - 2, 5))
    assert not ledger.keep_receipt(a_round(1), Receipt(0, 7, 5))
    assert ledger.keep_receipt(a_round(1), padded)
    assert ledger.keep_receipt(a_round(), Receipt(0, 8, 5))
    assert dict(ledger.receipts(a_round(1))) == {0: Receipt(0, 2**61 - 2, 5), 1: padded}
    assert dict(ledger.receipts(a_round(2))) == {}


def test_pads_are_forgotten_when_their_round_is_opened(ledger):
    for client in (0, 1):
        assert ledger.keep_receipt(a_round(), Receipt(client, 7, 5, new_pad(Mask([False], 4, 4))))
    assert ledger.keep_receipt(a_round(1), Receipt(0, 8, 5, new_pad(Mask([False], 4, 4))))
    ledger.keep_opened(a_round(), Opened(np.arange(4), 1.0, (0, 1)))
    assert all(receipt.pad is None for receipt in ledger.receipts(a_round()).values())
    assert ledger.receipts(a_round(1))[0].pad is not None


def test_a_pad_that_comes_after_the_opening_is_not_kept_either(store):
    Registry(store).add_round(a_round(), WHO)
    Openings(store, 3, 12).claim(place_of(a_round()), b"digest", WHO)
    ledger = DatabaseLedger(store, bytes(32), WHO)
    ledger.keep_opened(a_round(), Opened(np.arange(4), 1.0, (0,)))
    assert ledger.keep_receipt(a_round(), Receipt(1, 7, 5, new_pad(Mask([False], 4, 4))))
    assert ledger.receipts(a_round())[1] == Receipt(1, 7, 5)


def test_what_was_erased_before_a_crash_is_gone_from_the_log_after_the_next_start(store, tmp_path):
    """The process died between erasing and truncating the write-ahead log: whoever starts again does it."""
    Registry(store).add_round(a_round(), WHO)
    ledger = DatabaseLedger(store, bytes(32), WHO)
    ledger.keep_receipt(a_round(), Receipt(1, 7, 5, new_pad(Mask([False], 4, 4))))
    [sealed] = store.run(lambda transaction: transaction.row("SELECT padded FROM receipts"))
    store.run(lambda transaction: transaction.change("UPDATE receipts SET padded = NULL"))
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "service", crashed)
    assert any(sealed in path.read_bytes() for path in crashed.glob("state.db*"))
    again = Store(Folder(crashed).database, Folder(crashed).log)
    again.note({"event": "anything"})
    assert not any(sealed in path.read_bytes() for path in crashed.glob("state.db*"))
    again.close()


@pytest.mark.parametrize("later", [a_round(1), a_round(attempt=1)], ids=["round", "attempt"])
def test_a_pad_that_comes_after_something_later_has_begun_is_not_kept_either(store, later):
    ledger, receipt = DatabaseLedger(store, bytes(32), WHO), Receipt(1, 7, 5, new_pad(Mask([False], 4, 4)))
    for each in (a_round(), later):
        Registry(store).add_round(each, WHO)
    assert ledger.keep_receipt(a_round(), receipt)
    assert ledger.keep_receipt(later, receipt)
    assert ledger.receipts(a_round())[1].pad is None
    assert ledger.receipts(later)[1] == receipt


def test_all_attempts_of_a_round_are_opened_with_one_of_them(ledger):
    ledger.keep_opened(a_round(), Opened(np.arange(4), 1.0, (0, 1)))
    assert ledger.was_opened(a_round(attempt=1))
    with pytest.raises(Rejected) as refusal:
        ledger.keep_opened(a_round(attempt=1), Opened(np.arange(4), 1.0, (1,)))
    assert refusal.value.code == "already-decrypted"


def test_a_round_is_opened_once(ledger):
    opened = Opened(np.arange(4), 1.0, (0, 1))
    assert not ledger.was_opened(a_round())
    ledger.keep_opened(a_round(), opened)
    assert ledger.was_opened(a_round())
    assert not ledger.was_opened(a_round(1))
    with pytest.raises(Rejected) as refusal:
        ledger.keep_opened(a_round(), opened)
    assert refusal.value.code == "already-decrypted"


def test_the_latest_order_holds(ledger):
    assert ledger.ranking("run", 0) is None
    ledger.keep_ranking("run", 0, ranking(2, 0, 1, 3))
    assert ledger.ranking("run", 0).order.tolist() == [2, 0, 1, 3]
    assert ledger.ranking("run", 1) is None
    assert ledger.root == ledger.root
    assert len(ledger.root) == 32


def test_of_many_receipts_at_once_one_is_kept(store):
    Registry(store).add_round(a_round(), WHO)
    ledger, kept = DatabaseLedger(store, bytes(32), WHO), []
    threads = [
        threading.Thread(target=lambda value=value: kept.append(ledger.keep_receipt(a_round(), Receipt(0, value, 5))))
        for value in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kept) == [False] * 19 + [True]
    assert store.head.number == 3  # initialised, round, one receipt


def test_of_many_openings_at_once_one_is_kept(store):
    Registry(store).add_round(a_round(), WHO)
    Openings(store, 3, 12).claim(place_of(a_round()), b"digest", WHO)
    ledger, outcomes = DatabaseLedger(store, bytes(32), WHO), []

    def keep() -> None:
        try:
            ledger.keep_opened(a_round(), Opened(np.arange(4), 1.0, (0, 1)))
            outcomes.append("kept")
        except Rejected:
            outcomes.append("refused")

    threads = [threading.Thread(target=keep) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["kept"] + ["refused"] * 9


def test_what_is_sealed_opens_only_at_its_place():
    sealer = Sealer(bytes(32))
    sealed = sealer.seal(b"secret", "receipt", "run", 0)
    assert sealer.open(sealed, "receipt", "run", 0) == b"secret"
    assert sealed != sealer.seal(b"secret", "receipt", "run", 0)
    for data, place in (
        (sealed, ("receipt", "run", 1)),
        (sealed[:-1], ("receipt", "run", 0)),
        (b"", ("receipt", "run", 0)),
    ):
        with pytest.raises(ServiceError, match="altered from outside"):
            sealer.open(data, *place)
    with pytest.raises(ServiceError):
        Sealer(bytes(31) + b"x").open(sealed, "receipt", "run", 0)


def test_buckets_run_dry_and_fill_again(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("sensecrypt.keyservice.http.limits.time.monotonic", lambda: now[0])
    buckets = Buckets(rate=2, burst=3)
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b")
    now[0] += 0.5
    assert [buckets.take("a") for _ in range(2)] == [True, False]
    now[0] += 1000
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]


def test_skipped_lines_are_counted(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("sensecrypt.keyservice.http.limits.time.monotonic", lambda: now[0])
    thinned = Thinned(per_minute=2)
    assert [thinned.passes("x") for _ in range(5)] == [0, 0, None, None, None]
    now[0] += 30
    assert thinned.passes("x") == 3


def test_what_peers_can_trigger_does_not_fill_the_error_output(monkeypatch):
    """Of one message so many lines per minute, whatever its arguments; of others as many of their own."""
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    thin_messages(per_minute=3)
    for number in range(100):
        logging.getLogger("sensecrypt.dkms").warning("peer %d failed", number)
    logging.getLogger("sensecrypt.dkms").warning("something else")
    assert written == ["peer 0 failed", "peer 1 failed", "peer 2 failed", "something else"]
