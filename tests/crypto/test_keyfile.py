from __future__ import annotations

import json
import os
import stat

import pytest

from sensecrypt import KeyFileError
from sensecrypt.crypto import keyfile
from sensecrypt.crypto.keyfile import read_public, read_secret, write_public, write_secret
from tests.crypto.conftest import keypair

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch):
    monkeypatch.setattr(keyfile, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})


@pytest.fixture(params=["insecure-test", "ckks-8192"])
def secret(request):
    return keypair(request.param)[1]


@pytest.fixture
def path(tmp_path, secret):
    write_secret(tmp_path / "key.json", secret, PASSPHRASE)
    return tmp_path / "key.json"


def test_a_key_pair_survives(path, secret):
    loaded = read_secret(path, PASSPHRASE)
    assert loaded.public == secret.public
    assert loaded.decrypt(secret.public.encrypt([1, -2]), 2).tolist() == [1, -2]
    assert read_public(path) == secret.public


def test_a_public_file_holds_the_public_key_alone(tmp_path, secret):
    write_public(tmp_path / "public.json", secret.public)
    assert read_public(tmp_path / "public.json") == secret.public
    with pytest.raises(KeyFileError, match="no secret key"):
        read_secret(tmp_path / "public.json", PASSPHRASE)


def test_the_secret_is_nowhere_in_the_file(path, secret):
    text = path.read_text()
    if hasattr(secret, "primes"):
        for prime in secret.primes():
            assert f"{prime:x}" not in text
            assert str(prime) not in text
    else:
        assert secret.private_context().hex() not in text
    assert PASSPHRASE not in text


def test_only_the_owner_may_read_it(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_kept_unless_forced(path, secret):
    before = path.read_bytes()
    for write in (lambda: write_secret(path, secret, PASSPHRASE), lambda: write_public(path, secret.public)):
        with pytest.raises(KeyFileError, match="exists already"):
            write()
    assert path.read_bytes() == before
    write_secret(path, secret, "another passphrase", force=True)
    assert read_secret(path, "another passphrase").public == secret.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path, secret, monkeypatch):
    target = tmp_path / "key.json"
    monkeypatch.setattr(keyfile, "_refuse_existing", lambda path, force: None)
    target.write_text("somebody else's")
    write_secret(target, secret, PASSPHRASE)
    assert target.read_text() == "somebody else's"


def test_a_wrong_passphrase_is_a_clear_error(path):
    with pytest.raises(KeyFileError, match="check the passphrase") as error:
        read_secret(path, "wrong passphrase")
    assert "wrong passphrase" not in str(error.value)


def test_every_damaged_byte_is_noticed(path):
    fields = json.loads(path.read_text())
    for change in (
        {"secret": fields["secret"][:-2]},
        {"secret": ("0" if fields["secret"][0] != "0" else "1") + fields["secret"][1:]},
        {"secret": "zz"},
        {"nonce": "00" * 12},
        {"nonce": ""},
        {"kdf": {**fields["kdf"], "salt": "00" * 16}},
        {"kdf": {**fields["kdf"], "n": 2**40}},
        {"kdf": {**fields["kdf"], "n": "many"}},
        {"kdf": {}},
        {"cipher": "none"},
        {"profile": "paillier-9"},
        {"fingerprint": "0" * 16},
        {"public": {}},
        {"public": 5},
        {"version": 2},
        {"format": "something"},
    ):
        path.write_text(json.dumps({**fields, **change}))
        with pytest.raises(KeyFileError):
            read_secret(path, PASSPHRASE)


def test_a_truncated_file_is_a_clear_error(path):
    text = path.read_text()
    for length in (0, 1, len(text) // 2, len(text) - 3):
        path.write_text(text[:length])
        for read in (lambda: read_public(path), lambda: read_secret(path, PASSPHRASE)):
            with pytest.raises(KeyFileError, match="damaged"):
                read()


def test_a_small_key_in_a_file_that_claims_more_is_refused(tmp_path):
    public, _ = keypair("insecure-test")
    write_public(tmp_path / "key.json", public)
    fields = json.loads((tmp_path / "key.json").read_text())
    (tmp_path / "key.json").write_text(json.dumps({**fields, "profile": "paillier-2048"}))
    with pytest.raises(KeyFileError, match="512 bits"):
        read_public(tmp_path / "key.json")


def test_a_short_passphrase_is_refused_and_nothing_written(tmp_path, secret):
    with pytest.raises(KeyFileError, match="at least 8"):
        write_secret(tmp_path / "key.json", secret, "short")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_or_folder_is_a_clear_error(tmp_path, secret):
    with pytest.raises(KeyFileError, match="cannot be read"):
        read_public(tmp_path / "none.json")
    with pytest.raises(KeyFileError, match="cannot be written"):
        write_public(tmp_path / "no" / "folder" / "key.json", secret.public)


def test_a_full_disk_leaves_no_half_file(tmp_path, secret, monkeypatch):
    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyFileError, match="No space left"):
        write_secret(tmp_path / "key.json", secret, PASSPHRASE)
    assert list(tmp_path.iterdir()) == []


def test_the_real_cost_is_what_is_documented(monkeypatch):
    monkeypatch.undo()
    assert keyfile.SCRYPT == {"n": 2**17, "r": 8, "p": 1}
