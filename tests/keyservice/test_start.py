"""Whatever keeps the service from starting, or a certificate from being accepted, is one line that says what to do."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.errors import CertificateError, InvalidInput
from sensecrypt.keyservice import pki as pki_module
from sensecrypt.keyservice.http.certificates import check_pair
from sensecrypt.keyservice.http.policy import DEFAULT_TEXT, Policy, read_policy
from tests.keyservice.conftest import PASSPHRASE, Server, certificate, make_server, wait_for_handshake


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, pki) -> Server:
    """A folder that no service holds."""
    return make_server(tmp_path_factory.mktemp("dkms") / "service", pki)


def attempt(command: list[str], *, passphrase: str = PASSPHRASE) -> str:
    """What a command that must fail says: one line, no traceback."""
    environment = {**os.environ, "SENSECRYPT_PASSPHRASE": passphrase}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert passphrase not in line
    return line


def issued_on(when: datetime, monkeypatch, folder: Path, role: str, name: str) -> tuple[Path, Path]:
    """A certificate of a day and a half, issued when the clock said so."""

    class Then(datetime):
        @classmethod
        def now(cls, tz=None):
            return when

    with monkeypatch.context() as patch:
        patch.setattr(pki_module, "datetime", Then)
        return certificate(folder, role, name, days=1)


def test_a_port_in_use(stopped):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        line = attempt([*stopped.command(), "--port", port])
    assert f"127.0.0.1:{port}: is in use by another program; end the other program, or choose another --port" in line


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_extra(stopped, missing):
    block = f"import sys; sys.modules[{missing!r}] = None; from sensecrypt.cli import main; main()"
    line = attempt([sys.executable, "-c", block, *stopped.command()[3:]])
    assert 'pip install "sensecrypt[dkms]"' in line


def test_a_missing_extra_of_the_client():
    code = "import sys; sys.modules['httpx'] = None; import sensecrypt.keyservice.http.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtra" in done.stderr
    assert 'pip install "sensecrypt[dkms]"' in done.stderr


def test_an_expired_certificate_of_the_service(stopped, pki, monkeypatch):
    crt, key = issued_on(datetime.now(UTC) - timedelta(days=30), monkeypatch, pki, "server", "expired-server")
    line = attempt([*stopped.command(), "--certificate", str(crt), "--key", str(key)])
    assert re.search(r"expired on .* UTC; issue a new one", line)


def test_a_clock_that_is_off(stopped, pki, monkeypatch):
    crt, key = issued_on(datetime.now(UTC) + timedelta(days=30), monkeypatch, pki, "server", "future-server")
    line = attempt([*stopped.command(), "--certificate", str(crt), "--key", str(key)])
    assert re.search(r"is not valid before .* UTC, and this clock says .*; set this machine's clock", line)
    with pytest.raises(CertificateError, match="set this machine's clock"):
        check_pair(crt, key, pki / "ca.crt")


def test_expired_and_future_certificates_of_clients_are_refused_and_written_down(server, pki, monkeypatch):
    names = {"expired-client": -30, "future-client": 30}
    for name, days in names.items():
        crt, _ = issued_on(datetime.now(UTC) + timedelta(days=days), monkeypatch, pki, "client", name)
        assert crt.exists()
        with server.browser("client", name) as browser, pytest.raises(httpx.TransportError):
            browser.get("/v1/about")
    for reason in ("certificate has expired", "certificate is not yet valid"):
        wait_for_handshake(server, reason, more_than=0)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, but for the lock that a start takes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_state_of_another_version(tmp_path, pki):
    server = make_server(tmp_path / "service", pki)
    with sqlite3.connect(server.folder.database) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # also what a start would set is left as it is
        connection.execute("PRAGMA user_version = 3")  # the version before: nobody joins
    connection.close()
    before = contents(server.folder.path)
    line = attempt(server.command())
    assert "is of version 3, this program writes version 4; use the version of sensecrypt that wrote it" in line
    assert contents(server.folder.path) == before


def test_no_state_damaged_state_and_a_wrong_passphrase(tmp_path, pki):
    assert "run: sensecrypt dkms init" in attempt(Server(tmp_path / "nowhere", pki).command())
    server = make_server(tmp_path / "service", pki)
    assert "check the passphrase" in attempt(server.command(), passphrase=PASSPHRASE[::-1])
    server.folder.database.write_bytes(b"no database at all" * 100)
    assert "is damaged; restore it from a backup" in attempt(server.command())


def test_a_folder_is_held_by_one_service(server):
    assert "is in use by another key service; end that one first" in attempt(server.command())


def test_a_tampered_log_keeps_the_service_from_starting(tmp_path, pki):
    server = make_server(tmp_path / "service", pki)
    server.folder.log.write_text("")
    line = attempt(server.command())
    assert f"{server.folder.log}: ends at line 0, line 1 is known: its tail was cut off; restore it" in line


def test_init_makes_a_folder_for_its_owner_only_and_never_over_another(tmp_path):
    folder = tmp_path / "service"
    (tmp_path / "phrase").write_text(PASSPHRASE)
    command = ["dkms", "init", "--folder", str(folder), "--passphrase-file", str(tmp_path / "phrase")]
    first = CliRunner().invoke(main, command)
    assert (first.exit_code, "Audit head 1:" in first.output) == (0, True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} >= {"root.json", "state.db", "audit.log", "policy.toml", "keys"}
    for name in ("root.json", "state.db", "audit.log"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    again = CliRunner().invoke(main, command)
    assert (again.exit_code, "exists already" in again.output) == (2, True)
    short = CliRunner().invoke(
        main, ["dkms", "init", "--folder", str(tmp_path / "x")], env={"SENSECRYPT_PASSPHRASE": "short"}
    )
    assert (short.exit_code, (tmp_path / "x").exists()) == (2, False)


def test_the_written_policy_is_the_default(tmp_path):
    (tmp_path / "policy.toml").write_text(DEFAULT_TEXT)
    assert read_policy(tmp_path / "policy.toml") == Policy()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("min_contributers = 3", "did you mean 'min_contributors'"),
        ("min_contributors = 1", "pass at least 2"),
        ("burst = 'many'", "burst"),
        ("burst = inf", "burst"),
        ("quorum = nan", "quorum: is nan"),
        ("largest_weight = inf", "largest_weight: is inf"),
        ("allow_insecure = 1", "write true or false"),
        ("denied = 'phone-3'", "is no list"),
        ("denied = [3]", "not all names"),
        ("burst =", "is not TOML"),
    ],
)
def test_a_mistake_in_the_policy_is_told(tmp_path, text, told):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read_policy(tmp_path / "policy.toml")


def test_pki_commands(tmp_path):
    folder = str(tmp_path / "pki")
    assert CliRunner().invoke(main, ["pki", "init", "--out", folder]).exit_code == 0
    more = ["--role", "server", "--name", "dkms", "--host", "localhost", "--host", "127.0.0.1"]
    assert CliRunner().invoke(main, ["pki", "issue", "--pki", folder, *more]).exit_code == 0
    again = CliRunner().invoke(main, ["pki", "issue", "--pki", folder, *more])
    assert (again.exit_code, "exists already" in again.output) == (2, True)
