"""Mistakes at `sensecrypt fleet` and `sensecrypt dkms register`: one line, and nothing left behind."""

from __future__ import annotations

import importlib.util
import json
import socket

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.lab.fleet import commands
from tests.keyservice.conftest import certificate


def invoke(*arguments: object) -> tuple[int, str]:
    """Exit code, and the last line."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output.strip().splitlines()[-1]


def test_a_new_fleet_needs_a_number_of_clients(tmp_path):
    code, line = invoke("fleet", "up", "--folder", tmp_path / "fleet")
    fix = "pass the number of clients, such as --clients 4"
    assert (code, line) == (2, f"Error: --clients: is missing, and the fleet is new; {fix}")
    code, line = invoke("fleet", "up", "--folder", tmp_path / "fleet", "--clients", 1)
    assert (code, line) == (2, "Error: clients: is 1; pass at least 2 and at most 1,000")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_something_else(tmp_path):
    (tmp_path / "thesis.tex").touch()
    for more in (["--clients", 2], []):
        code, line = invoke("fleet", "up", "--folder", tmp_path, *more)
        assert code == 2
        assert "has other files; choose a new folder" in line


def test_a_missing_extra(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "flwr" else find(name))
    code, line = invoke("fleet", "up", "--folder", tmp_path / "fleet", "--clients", 2)
    assert (code, line) == (
        2,
        'Error: sensecrypt fleet up needs packages that are not installed; run: pip install "sensecrypt[flower]"',
    )


def test_an_existing_fleet_keeps_its_shape(own):
    code, line = invoke("fleet", "up", "--folder", own.path, "--clients", 3)
    assert code == 2
    assert "--clients: is 3, and the fleet in" in line
    assert "was made with 2; leave it out, or choose a new folder" in line


def test_a_fleet_that_is_up_already(own):
    with own.held():
        code, line = invoke("fleet", "up", "--folder", own.path)
    assert code == 2
    assert "has its fleet up already; use that one, or end it first" in line


def test_a_port_in_use(own):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, line = invoke("fleet", "up", "--folder", own.path, "--port", port)
    assert code == 2
    assert f"127.0.0.1:{port}: is in use by another program; end the other program, or choose another --port" in line


def test_an_expired_certificate(own, monkeypatch):
    monkeypatch.setattr("sensecrypt.keyservice.http.certificates.datetime", Later)
    code, line = invoke("fleet", "up", "--folder", own.path)
    assert code == 2
    assert "expired on" in line


class Later:
    """A clock that is 200 days on."""

    @staticmethod
    def now(zone):
        from datetime import datetime, timedelta

        return datetime.now(zone) + timedelta(days=200)


def test_a_part_that_cannot_start_ends_the_others_and_tells_its_last_words(own, monkeypatch):
    monkeypatch.setattr(commands, "_dkms", lambda folder: ["/bin/sh", "-c", "echo 'Error: no key'; exit 2"])
    code, line = invoke("fleet", "up", "--folder", own.path)
    assert code == 1
    assert line.startswith("Error: dkms ended as it started (Error: no key); read ")
    with own.held():
        assert own.read().pids == {}


def test_run_needs_a_fleet_that_is_up_and_settings_that_fit(own, tmp_path):
    code, line = invoke("fleet", "run", "--folder", tmp_path / "nothing")
    assert code == 2
    assert "has no fleet; make one with: sensecrypt fleet up" in line
    code, line = invoke("fleet", "run", "--folder", own.path)
    assert code == 2
    assert "has no fleet that is up; start it, in another terminal: sensecrypt fleet up" in line
    file = tmp_path / "run.toml"
    file.write_text("clients = 7")
    with own.held():
        for arguments, problem in (
            (["--set", "clients=3"], "clients: is 3, and the fleet has 2; leave it out"),
            ([file], "clients: is 7, and the fleet has 2"),
            (["--set", "partition=iid"], "min_contributors: is 3, the fleet has 2 clients; choose 2 to 2"),
            (["--resume", "a", "--set", "rounds=2"], "--resume: continues a run as configured"),
            (["--resume", "a"], "holds no run; check the path, or start a run there first"),
            (["--resume", "../a"], "is '../a'"),
            (["--set", "min_contributors=2", "--name", "a b"], "--name: is 'a b'"),
            (["--set", "moon=2"], "moon: is not a key"),
        ):
            code, line = invoke("fleet", "run", "--folder", own.path, *arguments)
            assert code == 2
            assert problem in line


TWO = ["--member", "a", "--member", "b", "--min-contributors", 2]


@pytest.fixture
def admin(server, pki) -> list[object]:
    crt, key = certificate(pki, "admin", "alice")
    who = ["--certificate", crt, "--key", key, "--ca", pki / "ca.crt"]
    return ["dkms", "register", "--url", server.url, *who, "--size", 100, "--profile", "insecure-test"]


def test_register_a_run(server, admin, tmp_path):
    members = ["--member", "phone-b", "--member", "phone-a", "--min-contributors", 2]
    code, line = invoke(*admin, "--run", "registered", *members, "--first", "0:3", "--first", "90:100")
    assert (code, line) == (0, "Run registered is registered: 2 members, 100 parameters, insecure-test.")
    with server.identity("client", "phone-a") as client:
        assert client.run("registered")["client"] == 1
    names = tmp_path / "names"
    names.write_text("phone-b\nphone-a\n\n")
    more = ["--members", names, "--min-contributors", 2, "--first", "0:3", "--first", "90:100", "--json"]
    code, line = invoke(*admin, "--run", "registered", *more)
    assert code == 0
    assert json.loads(line)["members"] == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--member: is needed, or --members, and not both"),
        (["--member", "a", "--members", "names"], "and not both"),
        (["--members", "nowhere"], "nowhere: cannot be read"),
        (["--member", "a", "--member", "b", "--member", "a"], "names 'a' twice"),
        ([*TWO, "--first", "5"], "--first: is '5'; write START:STOP"),
        ([*TWO, "--first", "5:5"], "--first: is '5:5'"),
        ([*TWO, "--first", "-1:5"], "--first: is '-1:5'"),
        (["--member", "a", "--member", "b/c"], "--member: is 'b/c'; use up to 63 letters"),
        (["--member", "a", "--member", "b"], "--min-contributors: is 3, and the run has 2 members; name more"),
        (["--profile", "rot13"], "'rot13' is not one of 'paillier-2048'"),
        (["--run", "a b"], "--run: is 'a b'; use up to 63 letters"),
        (["--run", "a/b"], "--run: is 'a/b'"),
    ],
)
def test_mistakes_of_an_admin(admin, arguments, problem):
    code, line = invoke(*admin, "--run", "mistaken", *arguments)
    assert code == 2
    assert problem in line


def test_what_the_service_refuses_is_one_line(server, admin, pki):
    members = ["--member", "a", "--member", "b", "--min-contributors", 2]
    code, line = invoke(*admin, "--run", "refused", *members, "--first", "90:101")
    assert (code, line.startswith("Error: a range of `first` is outside the model")) == (1, True)
    crt, key = certificate(pki, "client", "mallory")
    code, line = invoke(*admin, "--run", "refused", *members, "--certificate", crt, "--key", key)
    assert code == 1
    assert "admin" in line
