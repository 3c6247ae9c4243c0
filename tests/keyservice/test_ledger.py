"""Every ledger keeps the same promises: the one in memory and the one in the database."""

from __future__ import annotations

import logging
import shutil
import threading

import numpy as np
import pytest

from sensecrypt.errors import Rejected, ServiceError
from sensecrypt.keyservice.http import storagecipher
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.claims import Claims
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.http.ledger import DatabaseLedger
from sensecrypt.keyservice.http.limits import Buckets, Thinned, thin_messages
from sensecrypt.keyservice.http.rounds import Rounds
from sensecrypt.keyservice.http.storagecipher import StorageCipher
from sensecrypt.keyservice.http.store import Store
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.ledger import ImportanceOrder, Ledger, MemoryLedger
from sensecrypt.protocol.messages import Tag
from sensecrypt.protocol.round import Round, address_of
from sensecrypt.protocol.tags import new_blinding
from sensecrypt.protocol.updates import ReleasedSum
from sensecrypt.types import Mask

WHO = Identity("client", "phone-0")


def a_round(number: int = 0, *, purpose: str = "model", attempt: int = 0) -> Round:
    return Round("run", number, 0, purpose, 4, get_profile("insecure-test"), {0: 0.5, 1: 0.5}, attempt)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(storagecipher, "create_root", lambda path, passphrase: path.write_text("{}"))
    folder = Folder(tmp_path / "service")
    folder.create("correct horse")
    store = Store(folder.database, folder.log)
    yield store
    store.close()


@pytest.fixture(params=["memory", "database"])
def ledger(request, store) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    rounds = Rounds(store)
    for number in (0, 1):
        rounds.add(a_round(number), WHO)
        Claims(store, 3, 12).claim(address_of(a_round(number)), b"digest", WHO)
    return DatabaseLedger(store, bytes(32), WHO)


def ranking(*order: int) -> ImportanceOrder:
    return ImportanceOrder(np.array(order), np.array([1.0]))


def test_tags_are_kept_once_a_client_and_by_round(ledger):
    blinded = Tag(1, 7, 5, new_blinding(Mask([False], 4, 4)))
    assert ledger.keep_tag(a_round(1), Tag(0, 2**61 - 2, 5))
    assert not ledger.keep_tag(a_round(1), Tag(0, 2**61 - 2, 5))
    assert not ledger.keep_tag(a_round(1), Tag(0, 7, 5))
    assert ledger.keep_tag(a_round(1), blinded)
    assert ledger.keep_tag(a_round(), Tag(0, 8, 5))
    assert dict(ledger.tags(a_round(1))) == {0: Tag(0, 2**61 - 2, 5), 1: blinded}
    assert dict(ledger.tags(a_round(2))) == {}


def test_pads_are_forgotten_when_their_round_is_opened(ledger):
    for client in (0, 1):
        assert ledger.keep_tag(a_round(), Tag(client, 7, 5, new_blinding(Mask([False], 4, 4))))
    assert ledger.keep_tag(a_round(1), Tag(0, 8, 5, new_blinding(Mask([False], 4, 4))))
    ledger.keep_released(a_round(), ReleasedSum(np.arange(4), 1.0, (0, 1)))
    assert all(tag.blinding is None for tag in ledger.tags(a_round()).values())
    assert ledger.tags(a_round(1))[0].blinding is not None


def test_a_pad_that_comes_after_the_opening_is_not_kept_either(store):
    Rounds(store).add(a_round(), WHO)
    Claims(store, 3, 12).claim(address_of(a_round()), b"digest", WHO)
    ledger = DatabaseLedger(store, bytes(32), WHO)
    ledger.keep_released(a_round(), ReleasedSum(np.arange(4), 1.0, (0,)))
    assert ledger.keep_tag(a_round(), Tag(1, 7, 5, new_blinding(Mask([False], 4, 4))))
    assert ledger.tags(a_round())[1] == Tag(1, 7, 5)


def test_what_was_erased_before_a_crash_is_gone_from_the_log_after_the_next_start(store, tmp_path):
    """The process died between erasing and truncating the write-ahead log: whoever starts again does it."""
    Rounds(store).add(a_round(), WHO)
    ledger = DatabaseLedger(store, bytes(32), WHO)
    ledger.keep_tag(a_round(), Tag(1, 7, 5, new_blinding(Mask([False], 4, 4))))
    [encrypted] = store.run(lambda transaction: transaction.row("SELECT blinded FROM tags"))
    store.run(lambda transaction: transaction.change("UPDATE tags SET blinded = NULL"))
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "service", crashed)
    assert any(encrypted in path.read_bytes() for path in crashed.glob("state.db*"))
    again = Store(Folder(crashed).database, Folder(crashed).log)
    again.note("anything")
    assert not any(encrypted in path.read_bytes() for path in crashed.glob("state.db*"))
    again.close()


@pytest.mark.parametrize("later", [a_round(1), a_round(attempt=1)], ids=["round", "attempt"])
def test_a_pad_that_comes_after_something_later_has_begun_is_not_kept_either(store, later):
    ledger, tag = DatabaseLedger(store, bytes(32), WHO), Tag(1, 7, 5, new_blinding(Mask([False], 4, 4)))
    for each in (a_round(), later):
        Rounds(store).add(each, WHO)
    assert ledger.keep_tag(a_round(), tag)
    assert ledger.keep_tag(later, tag)
    assert ledger.tags(a_round())[1].blinding is None
    assert ledger.tags(later)[1] == tag


def test_all_attempts_of_a_round_are_opened_with_one_of_them(ledger):
    ledger.keep_released(a_round(), ReleasedSum(np.arange(4), 1.0, (0, 1)))
    assert ledger.was_released(a_round(attempt=1))
    with pytest.raises(Rejected) as refusal:
        ledger.keep_released(a_round(attempt=1), ReleasedSum(np.arange(4), 1.0, (1,)))
    assert refusal.value.code == "already-decrypted"


def test_a_round_is_opened_once(ledger):
    released = ReleasedSum(np.arange(4), 1.0, (0, 1))
    assert not ledger.was_released(a_round())
    ledger.keep_released(a_round(), released)
    assert ledger.was_released(a_round())
    assert not ledger.was_released(a_round(1))
    with pytest.raises(Rejected) as refusal:
        ledger.keep_released(a_round(), released)
    assert refusal.value.code == "already-decrypted"


def test_the_latest_order_holds(ledger):
    assert ledger.ranking("run", 0) is None
    ledger.keep_ranking("run", 0, ranking(2, 0, 1, 3))
    assert ledger.ranking("run", 0).order.tolist() == [2, 0, 1, 3]
    assert ledger.ranking("run", 1) is None
    assert ledger.root == ledger.root
    assert len(ledger.root) == 32


def test_of_many_tags_at_once_one_is_kept(store):
    Rounds(store).add(a_round(), WHO)
    ledger, kept = DatabaseLedger(store, bytes(32), WHO), []
    threads = [
        threading.Thread(target=lambda value=value: kept.append(ledger.keep_tag(a_round(), Tag(0, value, 5))))
        for value in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kept) == [False] * 19 + [True]
    assert store.head.number == 3  # initialised, round, one tag


def test_of_many_openings_at_once_one_is_kept(store):
    Rounds(store).add(a_round(), WHO)
    Claims(store, 3, 12).claim(address_of(a_round()), b"digest", WHO)
    ledger, outcomes = DatabaseLedger(store, bytes(32), WHO), []

    def keep() -> None:
        try:
            ledger.keep_released(a_round(), ReleasedSum(np.arange(4), 1.0, (0, 1)))
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
    cipher = StorageCipher(bytes(32))
    encrypted = cipher.encrypt(b"secret", "tag", "run", 0)
    assert cipher.decrypt(encrypted, "tag", "run", 0) == b"secret"
    assert encrypted != cipher.encrypt(b"secret", "tag", "run", 0)
    for data, place in (
        (encrypted, ("tag", "run", 1)),
        (encrypted[:-1], ("tag", "run", 0)),
        (b"", ("tag", "run", 0)),
    ):
        with pytest.raises(ServiceError, match="altered from outside"):
            cipher.decrypt(data, *place)
    with pytest.raises(ServiceError):
        StorageCipher(bytes(31) + b"x").decrypt(encrypted, "tag", "run", 0)


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
