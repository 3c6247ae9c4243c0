"""The audit log: whatever is done to it, the check notices; and a crash at any point loses no line."""

from __future__ import annotations

import json
import sqlite3

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sensecrypt.cli import main
from sensecrypt.errors import AuditFailed, ServiceError
from sensecrypt.keyservice.http import audit, storagecipher
from sensecrypt.keyservice.http.audit import Head
from sensecrypt.keyservice.http.folder import Folder, verify_log
from sensecrypt.keyservice.http.store import Store


def append(log, line: str) -> None:
    file = audit.LogFile(log)
    file.append([line])
    file.close()


@pytest.fixture(autouse=True)
def cheap_root(monkeypatch):
    monkeypatch.setattr(storagecipher, "create_root", lambda path, passphrase: path.write_text("{}"))


@pytest.fixture
def folder(tmp_path) -> Folder:
    folder = Folder(tmp_path / "service")
    folder.create("correct horse")
    store = Store(folder.database, folder.log)
    for number in range(9):
        store.note("test", value=number)
    store.close()
    return folder


def lines(folder: Folder) -> list[str]:
    return folder.log.read_text().splitlines(keepends=True)


def check(folder: Folder, *more: str):
    return CliRunner().invoke(main, ["dkms", "audit", "--folder", str(folder.path), *more])


def test_a_whole_log_verifies_and_tells_its_head(folder):
    result = check(folder)
    assert (result.exit_code, "10 lines." in result.output) == (0, True)
    head = json.loads(check(folder, "--json").output)["head"]
    assert head == f"10:{json.loads(lines(folder)[-1])['hash']}"
    assert check(folder, "--head", head).exit_code == 0


def altered(kept: list[str], number: int) -> list[str]:
    return [line.replace('"test"', '"tEst"') if at == number else line for at, line in enumerate(kept)]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda kept: altered(kept, 4), "line 5 was altered"),
        (lambda kept: altered(kept, 9), "line 10 was altered"),
        (lambda kept: kept[:4] + kept[5:], "line 5 does not follow"),
        (lambda kept: kept[1:], "line 1 does not follow"),
        (lambda kept: [*kept[:4], kept[5], kept[4], *kept[6:]], "line 5 does not follow"),
        (lambda kept: kept[:-1], "its tail was cut off"),
        (lambda kept: kept[:-3], "its tail was cut off"),
        (lambda kept: [], "its tail was cut off"),
        (lambda kept: [*kept[:-1], kept[-1][:-20]], "its tail was cut off"),
        (lambda kept: [*kept, kept[-1]], "line 11 does not follow"),
        (lambda kept: [*kept[:3], "not json\n", *kept[4:]], "line 4 was altered"),
        (lambda kept: [*kept[:3], "[]\n", *kept[4:]], "line 4 was altered"),
    ],
)
def test_whatever_is_done_to_the_file_is_noticed(folder, change, problem):
    folder.log.write_text("".join(change(lines(folder))))
    result = check(folder)
    assert (result.exit_code, problem in result.output, "Traceback" in result.output) == (1, True, False)
    assert result.output.startswith(f"Error: {folder.log}: ")
    assert "restore it from a backup, and compare it with a head that was noted elsewhere" in result.output
    with pytest.raises(AuditFailed) as failure:
        Store(folder.database, folder.log)
    assert (failure.value.log, failure.value.fix) == (str(folder.log), audit.RESTORE)


def test_lines_added_with_a_correct_chain_are_noticed_as_well(folder):
    head, _ = audit.verify_chain(audit.read_lines(folder.log), log=folder.log)
    from datetime import UTC, datetime

    forged, _ = audit.next_line(head, {"event": "test"}, datetime.now(UTC))
    append(folder.log, forged)
    assert "has 11 lines, the database knows of 10: lines were added" in check(folder).output
    with pytest.raises(AuditFailed, match="lines were added"):
        Store(folder.database, folder.log)


def test_log_and_database_rewritten_together_are_noticed_by_whoever_noted_a_head(folder):
    noted = str(verify_log(folder)[0])
    kept = lines(folder)[:6]
    folder.log.write_text("".join(kept))
    with sqlite3.connect(folder.database) as connection:
        connection.execute("UPDATE audit_head SET number = 6, digest = ?", (json.loads(kept[-1])["hash"],))
    connection.close()
    assert check(folder).exit_code == 0
    result = check(folder, "--head", noted)
    assert (result.exit_code, "line 10 is known" in result.output) == (1, True)
    store = Store(folder.database, folder.log)
    for _ in range(5):
        store.note("other")
    store.close()
    assert "the log was rewritten" in check(folder, "--head", noted).output


def test_a_missing_log_and_a_wrong_head_are_clear(folder):
    assert check(folder, "--head", "ten").exit_code == 2
    folder.log.unlink()
    result = check(folder)
    assert (result.exit_code, "is missing" in result.output) == (1, True)


@given(cut=st.integers(0, 400))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_crash_between_commit_and_append_loses_no_line(tmp_path_factory, cut):
    """The database has committed a line; of it, the first `cut` bytes reached the file."""
    folder = Folder(tmp_path_factory.mktemp("crash") / "service")
    folder.create("correct horse")
    before = folder.log.read_bytes()
    store = Store(folder.database, folder.log)
    store.note("test")
    store.close()
    whole = folder.log.read_bytes()
    line = whole[len(before) :].decode().rstrip("\n")
    with sqlite3.connect(folder.database) as connection:
        connection.execute("INSERT INTO audit_waiting VALUES (2, ?)", (line,))
    connection.close()
    folder.log.write_bytes(before + whole[len(before) :][:cut])
    head, waiting = verify_log(folder)
    assert (head.number, waiting) == (2, 0 if cut >= len(line) + 1 else 1)
    Store(folder.database, folder.log).close()
    assert folder.log.read_bytes() == whole
    assert verify_log(folder) == (head, 0)


def test_work_that_raises_leaves_neither_change_nor_line(folder):
    store = Store(folder.database, folder.log)

    def work(transaction):
        transaction.change("INSERT INTO runs VALUES ('x', '', '', 0)")
        transaction.note("never")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        store.run(work)
    assert store.run(lambda transaction: transaction.rows("SELECT * FROM runs")) == []
    assert store.head.number == 10
    store.close()


def test_after_a_failed_write_nothing_is_granted_any_more(folder, monkeypatch):
    store = Store(folder.database, folder.log)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(audit.LogFile, "append", fail)
        for _ in range(2):
            with pytest.raises(Exception, match="cannot write its state") as refusal:
                store.note("test")
            assert refusal.value.code == "storage"
    with pytest.raises(Exception, match="cannot write its state"):
        store.note("test")
    store.close()
    Store(folder.database, folder.log).close()  # repairs: the committed line is in the file again
    assert verify_log(folder)[0].number == 11


def test_a_clock_that_was_set_back_is_told(folder):
    head, _ = audit.verify_chain(audit.read_lines(folder.log), log=folder.log)
    from datetime import UTC, datetime, timedelta

    line, after = audit.next_line(head, {"event": "test"}, datetime.now(UTC) + timedelta(hours=2))
    append(folder.log, line)
    with sqlite3.connect(folder.database) as connection:
        connection.execute("UPDATE audit_head SET number = ?, digest = ?", (after.number, after.digest))
    connection.close()
    with pytest.raises(ServiceError, match="this machine's clock"):
        Store(folder.database, folder.log)


def test_a_head_is_read_as_it_is_written():
    head = Head(7, "ab" * 32)
    assert Head.parse(str(head)) == head
    for wrong in ("", "7", "7:xyz", f"-1:{'ab' * 32}", f"7:{'AB' * 32}"):
        with pytest.raises(ServiceError, match="head"):
            Head.parse(wrong)


def test_long_facts_are_cut():
    from datetime import UTC, datetime

    line, _ = audit.next_line(Head(), {"path": "x" * 10_000}, datetime.now(UTC))
    assert len(line) < 600
