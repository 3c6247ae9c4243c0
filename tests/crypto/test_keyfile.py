from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sensecrypt import KeyFileError, generate_keypair
from sensecrypt.crypto import keyfile, passphrase, publicfile
from sensecrypt.crypto.keyfile import read_secret, write_secret
from sensecrypt.crypto.publicfile import read_public, write_public
from tests.crypto.conftest import keypair

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch):
    monkeypatch.setattr(passphrase, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})


@pytest.fixture(params=["insecure-test", "paillier-2048-subgroup", "ckks-8192", "ring-2048x4"])
def secret(request):
    return keypair(request.param)[1]


@pytest.fixture
def path(tmp_path, secret):
    write_secret(tmp_path / "key.json", secret, PASSPHRASE)
    return tmp_path / "key.json"


@pytest.fixture
def locked(tmp_path):
    """A path in a folder that this process may not enter, though it run as root."""
    folder, root = tmp_path / "locked", os.geteuid() == 0
    folder.mkdir(mode=0)
    if root:
        os.seteuid(65534)
    yield folder / "key.json"
    if root:
        os.seteuid(0)
    folder.chmod(0o700)


def chain(error):
    """All that a log of this exception could show."""
    return "" if error is None else f"{error.args!r} {chain(error.__cause__)} {chain(error.__context__)}"


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
        for prime in secret.primes() + secret.alphas():
            assert f"{prime:x}" not in text
            assert str(prime) not in text
    elif hasattr(secret, "secret_bytes"):
        for start in range(0, len(secret.secret_bytes()), 64):
            assert secret.secret_bytes()[start : start + 64].hex() not in text
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
    monkeypatch.setattr(publicfile, "refuse_existing", lambda path, force: None)
    target.write_text("somebody else's")
    with pytest.raises(KeyFileError, match="exists already"):
        write_secret(target, secret, PASSPHRASE)
    assert target.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_to_nowhere_counts_as_existing(tmp_path, secret):
    link = tmp_path / "key.json"
    link.symlink_to(tmp_path / "nowhere")
    for write in (lambda: write_secret(link, secret, PASSPHRASE), lambda: write_public(link, secret.public)):
        with pytest.raises(KeyFileError, match="exists already"):
            write()
    write_secret(link, secret, PASSPHRASE, force=True)
    assert read_secret(link, PASSPHRASE).public == secret.public


@pytest.mark.parametrize("damage", [lambda text: text, lambda text: text[:200]])
def test_a_public_key_never_replaces_a_secret_key(path, secret, damage):
    path.write_text(before := damage(path.read_text()))
    with pytest.raises(KeyFileError, match="would destroy"):
        write_public(path, secret.public, force=True)
    assert path.read_text() == before


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_hard_links_nothing_is_overwritten_either(tmp_path, secret, monkeypatch, number):
    def fail(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    target = tmp_path / "key.json"
    write_secret(target, secret, PASSPHRASE)
    assert read_secret(target, PASSPHRASE).public == secret.public
    target.write_text("somebody else's")
    with monkeypatch.context() as patch:
        patch.setattr(publicfile, "refuse_existing", lambda path, force: None)
        with pytest.raises(KeyFileError, match="exists already"):
            write_secret(target, secret, PASSPHRASE)
    assert target.read_text() == "somebody else's"
    target.unlink()
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyFileError, match="cannot be written"):
        write_secret(target, secret, PASSPHRASE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [False, True])
def test_file_and_folder_are_flushed(tmp_path, secret, monkeypatch, force):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    write_public(tmp_path / "key.json", secret.public, force=force)
    assert flushed == [False, True]


@pytest.mark.parametrize(("number", "told"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_flushed_is_told_only_if_that_is_a_fault(tmp_path, secret, monkeypatch, number, told):
    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    if told:
        with pytest.raises(KeyFileError, match="cannot be written"):
            write_public(tmp_path / "key.json", secret.public)
    else:
        write_public(tmp_path / "key.json", secret.public)
    assert read_public(tmp_path / "key.json") == secret.public


def test_a_wrong_passphrase_is_a_clear_error(path):
    with pytest.raises(KeyFileError, match="check the passphrase") as error:
        read_secret(path, "wrong passphrase")
    assert "wrong passphrase" not in chain(error.value)


def test_a_passphrase_that_is_not_utf8_is_refused_and_not_told(path, secret):
    phrase = "correct horse\udcff"
    for use in (lambda: write_secret(path, secret, phrase, force=True), lambda: read_secret(path, phrase)):
        with pytest.raises(KeyFileError, match="passphrase: is not valid UTF-8") as error:
            use()
        assert "horse" not in chain(error.value)


@pytest.mark.parametrize("phrase", [None, b"correct horse battery", list(PASSPHRASE)])
def test_a_passphrase_that_is_no_text_is_refused(path, secret, phrase):
    for use in (lambda: write_secret(path, secret, phrase, force=True), lambda: read_secret(path, phrase)):
        with pytest.raises(KeyFileError, match="passphrase: is a"):
            use()


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


@pytest.mark.parametrize(
    "cost",
    [
        {"n": 1024.0},
        {"n": "1024"},
        {"n": float("inf")},
        {"n": float("nan")},
        {"p": True},
        {"n": 1000},
        {"n": 1},
        {"n": 0},
        {"n": -1024},
        {"n": 2**18, "r": 9},
        {"n": 2**19},
        {"n": 2, "r": 2**20},
        {"n": 2**17, "r": 1},
        {"r": 0},
        {"p": 0},
        {"p": 5},
    ],
)
def test_costs_that_are_no_numbers_or_too_high_are_damage(path, cost):
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "kdf": {**fields["kdf"], **cost}}))
    with pytest.raises(KeyFileError, match="damaged or no key") as error:
        read_secret(path, PASSPHRASE)
    assert error.value.__cause__ is None


def test_the_highest_costs_are_accepted():
    for cost in ({"n": 2**18, "r": 8, "p": 4}, {"n": 2**17, "r": 16, "p": 1}, {"n": 2, "r": 1, "p": 1}):
        assert passphrase._checked_cost(cost) == cost


def test_a_lack_of_memory_is_a_clear_error(path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(passphrase, "_derive", fail)
    with pytest.raises(KeyFileError, match="damaged or no key"):
        read_secret(path, PASSPHRASE)


def test_a_deeply_nested_file_is_a_clear_error(path):
    for text in ("[" * 100_000, '{"public":' * 100_000):
        path.write_text(text)
        for read in (lambda: read_public(path), lambda: read_secret(path, PASSPHRASE)):
            with pytest.raises(KeyFileError, match="damaged or no key"):
                read()


def test_a_huge_file_is_not_even_parsed(path, monkeypatch):
    path.write_text(path.read_text() + " " * publicfile.MAX_BYTES)
    for read in (lambda: read_public(path), lambda: read_secret(path, PASSPHRASE)):
        with pytest.raises(KeyFileError, match="larger than"):
            read()


@pytest.mark.parametrize(
    "inner", [b"{", b"[]", b"5", b"\xff", b'{"p": "abcdefg"}', b'{"p": 5, "q": 7}', b"[" * 100_000]
)
def test_authentic_nonsense_is_a_clear_error_that_does_not_tell_it(path, secret, monkeypatch, inner):
    monkeypatch.setattr(keyfile, "_secret_bytes", lambda key: inner)
    write_secret(path, secret, PASSPHRASE, force=True)
    with pytest.raises(KeyFileError, match="damaged or no key") as error:
        read_secret(path, PASSPHRASE)
    assert error.value.__context__ is None


@pytest.mark.parametrize("profile", ["insecure-test", "ckks-8192"])
def test_the_secret_of_another_key_is_refused(tmp_path, monkeypatch, profile):
    other = keyfile._secret_bytes(generate_keypair(profile)[1])
    monkeypatch.setattr(keyfile, "_secret_bytes", lambda key: other)
    write_secret(tmp_path / "key.json", keypair(profile)[1], PASSPHRASE)
    with pytest.raises(KeyFileError, match="damaged or no key") as error:
        read_secret(tmp_path / "key.json", PASSPHRASE)
    assert error.value.__context__ is None


def test_a_truncated_file_is_a_clear_error(path):
    text = path.read_text()
    for length in (0, 1, len(text) // 2, len(text) - 3):
        path.write_text(text[:length])
        for read in (lambda: read_public(path), lambda: read_secret(path, PASSPHRASE)):
            with pytest.raises(KeyFileError, match="damaged or no key"):
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


def test_a_path_may_be_text(tmp_path, secret):
    name = str(tmp_path / ("k" * 250 + ".json"))
    write_secret(name, secret, PASSPHRASE)
    assert read_secret(name, PASSPHRASE).public == read_public(name) == secret.public
    write_public(str(tmp_path / "public.json"), secret.public)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["k" * 300, "nul\0.json", "k" * 5000 + "/key.json"])
def test_an_impossible_path_is_a_clear_error(tmp_path, secret, name, force):
    check_unusable(tmp_path / name, secret, force)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_forbidden_path_is_a_clear_error(secret, locked, force):
    check_unusable(locked, secret, force)


def check_unusable(path, secret, force):
    with pytest.raises(KeyFileError, match="cannot be written"):
        write_secret(path, secret, PASSPHRASE, force=force)
    with pytest.raises(KeyFileError, match="cannot be written"):
        write_public(path, secret.public, force=force)
    for read in (lambda: read_public(path), lambda: read_secret(path, PASSPHRASE)):
        with pytest.raises(KeyFileError, match="cannot be read"):
            read()


def test_a_full_disk_leaves_no_half_file(tmp_path, secret, monkeypatch):
    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyFileError, match="No space left"):
        write_secret(tmp_path / "key.json", secret, PASSPHRASE)
    assert list(tmp_path.iterdir()) == []


def test_the_real_cost_is_what_is_documented(monkeypatch):
    monkeypatch.undo()
    assert passphrase.SCRYPT == {"n": 2**17, "r": 8, "p": 1}


CODE = """
import sys
from sensecrypt.crypto import publicfile
print(publicfile.read_public(sys.argv[1]).fingerprint)
print([name for name in sys.modules if name.startswith("sensecrypt") and ("secret" in name or "key" in name)])
"""


def test_the_public_key_is_read_without_any_secret_module(path, secret):
    command = [sys.executable, "-c", CODE, str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [secret.public.fingerprint, "[]"]
    assert not {"read_public", "write_public", "PUBLIC_FORMAT"} & set(vars(keyfile))
