"""The end of a run: its secret key is destroyed, and what was released stays for its members."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.crypto.keyfile import read_secret
from sensecrypt.crypto.publicfile import PUBLIC_FORMAT, SECRET_FORMAT
from sensecrypt.errors import InvalidInput, KeyFileError, Refused
from sensecrypt.keyservice.http.vaultkey import VaultKey, VaultProcess, destroy_key, generate_key
from tests.keyservice.conftest import PASSPHRASE, certificate, make_server
from tests.keyservice.rounds import Played, expected_model


def format_of(played: Played) -> str:
    return json.loads(played.server.folder.key(played.run).read_text())["format"]


def close(played: Played):
    crt, key = certificate(played.server.pki, "admin", "admin")
    who = ["--certificate", crt, "--key", key, "--ca", played.server.pki / "ca.crt"]
    return CliRunner().invoke(
        main, list(map(str, ["dkms", "close", "--url", played.server.url, *who, "--run", played.run]))
    )


def ended(ask) -> None:
    with pytest.raises(Refused) as refusal:
        ask()
    assert refusal.value.code == "run-ended"


def test_close_destroys_the_key_and_keeps_what_was_opened(server):
    played = Played(server)
    first = played.round(0)
    released = played.upload(played.register(first))
    acknowledged = played.release(released, first)
    round_ = played.register(played.round(1))
    whole = played.upload(round_)
    key = server.folder.key(played.run)
    unused = key.with_name(f"{key.name}.unused-0123abcd")  # of a registration that a crash interrupted
    unused.write_bytes(key.read_bytes())
    for _ in range(2):
        done = close(played)
        assert (done.exit_code, done.output) == (0, f"Run {played.run} has ended: its secret key is destroyed.\n")
    assert format_of(played) == PUBLIC_FORMAT
    assert not unused.exists()
    with pytest.raises(KeyFileError):
        read_secret(key, PASSPHRASE)
    assert len(played.events("run-ended")) == 1
    ended(lambda: played.release(whole, round_))
    ended(lambda: played.register(played.round(2)))
    late = played.protect(round_, 0)
    with played.client(0) as client:
        ended(lambda: client.rotate_sketch(played.run, np.arange(8.0)))
        ended(lambda: client.send_tag(late.tag, round_))
        assert client.run(played.run)["ended"]
    assert played.release(released, first) == acknowledged
    assert played.model(first, 2).tobytes() == expected_model(played).tobytes()


def test_only_an_admin_closes_and_only_what_there_is(server):
    played = Played(server)
    for role, name, code in (("aggregator", "aggregator", "wrong-role"), ("client", "phone-0", "wrong-role")):
        with server.identity(role, name) as identity, pytest.raises(Refused) as refusal:
            identity.end_run(played.run)
        assert refusal.value.code == code
    with played.admin() as admin, pytest.raises(Refused) as refusal:
        admin.end_run("nowhere")
    assert refusal.value.code == "unknown-run"
    assert format_of(played) == SECRET_FORMAT


def test_a_run_ends_with_its_last_round(server):
    played = Played(server)
    good = {"size": 100, "profile": "insecure-test", "members": played.members, "min_contributors": 2}
    with played.admin() as admin:
        admin.register_run("counted", **good, rounds=2)
    played.run = "counted"
    played.report_samples()
    played.play(played.round(0))
    with pytest.raises(Refused, match="was registered with 2 rounds"):
        played.register(played.round(2))
    clusters = [played.register(played.round(1, cluster=each, members=[2 * each, 2 * each + 1])) for each in (0, 1)]
    played.release(played.upload(clusters[0]), clusters[0])
    assert format_of(played) == SECRET_FORMAT  # the other cluster is still to come
    played.release(played.upload(clusters[1]), clusters[1])
    assert format_of(played) == PUBLIC_FORMAT
    assert played.model(clusters[0], 0).size == played.model(clusters[1], 3).size == played.size


def test_a_crash_between_the_end_and_the_destruction(tmp_path, pki):
    server = make_server(tmp_path / "service", pki).start()
    played = Played(server)
    key = server.folder.key(played.run)
    secret = key.read_bytes()
    close(played)
    server.kill()
    key.write_bytes(secret)
    server.start()
    assert format_of(played) == PUBLIC_FORMAT
    server.end()


def test_a_destroyed_key_is_neither_on_disk_nor_in_the_vault(tmp_path):
    path, vault = tmp_path / "key.json", VaultProcess(PASSPHRASE)
    generate_key(vault, path, "insecure-test")
    unused = path.with_name(f"{path.name}.unused-0123abcd")
    shutil.copy(path, unused)
    key, rows = VaultKey(vault, path), VaultKey(vault, path).encrypt([1, 2, 3])
    assert key.decrypt(rows, 3).tolist() == [1, 2, 3]  # it is in the vault's memory now
    for each in (path, unused):
        os.link(each, each.with_suffix(".link"))  # the bytes where the file lay
    destroy_key(vault, path)
    for each in (path, unused):
        assert set(each.with_suffix(".link").read_bytes()) == {0}
    with pytest.raises(InvalidInput, match="holds no secret key"):
        key.decrypt(rows, 3)
    vault.close()


def test_blinding_seeds_of_an_ended_run_are_erased(server):
    played = Played(server)
    played.upload(played.register(played.round()))
    count = "SELECT count(*), count(blinded) FROM tags WHERE run = ?"
    with sqlite3.connect(server.folder.database) as connection:
        assert connection.execute(count, (played.run,)).fetchone() == (4, 4)
        close(played)
        assert connection.execute(count, (played.run,)).fetchone() == (4, 0)
    connection.close()
