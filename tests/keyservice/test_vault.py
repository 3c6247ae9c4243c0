"""The process that holds the keys: does what it is asked, tells no secret, and nobody else can import one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sensecrypt.crypto import passphrase
from sensecrypt.crypto.keyfile import read_secret, write_secret
from sensecrypt.errors import InvalidCiphertext, InvalidInput, WorkerDied
from sensecrypt.keyservice.http.vault import Vault
from sensecrypt.keyservice.http.vaultkey import VaultKey, VaultProcess, generate_key
from sensecrypt.protocol.envelope import parse_any, serialize
from tests.crypto.conftest import keypair

PHRASE = "correct horse battery"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "key.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passphrase, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})
        write_secret(path, keypair("insecure-test")[1], PHRASE)
    return path


@pytest.fixture(scope="module")
def vault():
    vault = VaultProcess(PHRASE)
    yield vault
    vault.close()


def test_it_decrypts_what_its_key_encrypted(vault, path):
    key = VaultKey(vault, path)
    values = np.arange(-20, 30)
    assert key.decrypt(key.encrypt(values), 50).tolist() == values.tolist()
    assert key.public == keypair("insecure-test")[0]


def test_mistakes_come_back_as_what_they_are(vault, path, tmp_path):
    key = VaultKey(vault, path)
    rows = key.encrypt([1, 2, 3])
    with pytest.raises(InvalidCiphertext):
        key.decrypt(np.zeros_like(rows), 3)
    with pytest.raises(InvalidInput, match="count"):
        key.decrypt(rows, 300)
    with pytest.raises(InvalidInput, match="exists already"):
        generate_key(vault, path, "insecure-test")
    with pytest.raises(WorkerDied, match="could not do this"):
        vault.ask({"do": "decrypt", "path": str(path)}, {})
    assert key.decrypt(rows, 3).tolist() == [1, 2, 3]


def test_it_makes_keys_that_only_the_passphrase_opens(vault, tmp_path):
    public = generate_key(vault, tmp_path / "new.json", "insecure-test")
    assert read_secret(tmp_path / "new.json", PHRASE).public == public
    with pytest.raises(InvalidInput, match="check the passphrase"):
        read_secret(tmp_path / "new.json", PHRASE + "x")


def test_a_wrong_passphrase_and_an_unforeseen_failure_tell_nothing(path):
    request = serialize(
        "request",
        {"do": "decrypt", "path": str(path), "count": 1, "workers": 1, "constant_time": 0},
        {"ciphertexts": np.eye(1)},
    )
    for phrase in (PHRASE[::-1], PHRASE):
        answer = Vault(phrase).answer(request)
        fields, _ = parse_any(answer, "failed")
        assert fields["error"] in ("KeyFileError", "InvalidCiphertext")
        assert phrase.encode() not in answer
    fields, _ = parse_any(Vault(PHRASE).answer(b"nonsense"), "failed")
    assert (fields["error"], fields["problem"]) == ("Rejected", "")


CODE = """
import sys
SECRET = ("secret", "secretschemes", "keys", "keyfile")
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sensecrypt.crypto.") and name.split(".")[-1] in SECRET:
            raise ImportError(f"{name} is not for this process")
sys.meta_path.insert(0, Refuse())
import sensecrypt.keyservice.http.serve, sensecrypt.keyservice.http.client, sensecrypt.keyservice.pki
print(*(name for name in sys.modules if name.startswith("sensecrypt") and ("secret" in name or "vault" in name)))
"""


def test_nothing_else_of_the_service_can_import_a_secret_module():
    loaded = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["sensecrypt.keyservice.http.vaultkey"]
