"""What others on the machine can read of a running service: no passphrase in its environment, no core dump."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gmpy2
import pytest

from sensecrypt.cli.passphrase import PASSPHRASE_VARIABLE, find_passphrase
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.http.policy import read_policy
from sensecrypt.keyservice.http.runs import Run
from sensecrypt.keyservice.http.service import KeyService
from sensecrypt.keyservice.http.storagecipher import read_root
from sensecrypt.keyservice.http.store import Store
from sensecrypt.keyservice.http.vault import Vault
from sensecrypt.keyservice.http.vaultkey import VaultKey, VaultProcess
from sensecrypt.protocol.envelope import parse_any, serialize
from tests.keyservice.conftest import PASSPHRASE
from tests.keyservice.test_vault import PHRASE, path  # noqa: F401  (a fixture)


def processes(server) -> list[int]:
    main = server.process.pid
    return [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]


def test_the_passphrase_is_in_no_environment(server):
    assert len(processes(server)) == 2
    for pid in processes(server):
        assert PASSPHRASE.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_the_passphrase_is_not_inherited(monkeypatch):
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    assert find_passphrase(None, confirm=False) == PASSPHRASE
    assert PASSPHRASE_VARIABLE not in os.environ
    assert PASSPHRASE not in subprocess.run(["/usr/bin/env"], capture_output=True, text=True, check=True).stdout


def test_no_process_leaves_a_core(server):
    for pid in processes(server):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        [line] = [line for line in limits if line.startswith("Max core file size")]
        assert line.split()[4:6] == ["0", "0"]


VAULT = """
import ctypes, resource
from sensecrypt.keyservice.http import vault

def serve(_connection):
    print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))

vault.Connection, vault.serve = (lambda handle: None), serve
vault.main(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_the_process_with_the_keys_cannot_be_traced():
    fresh = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"  # PR_GET_DUMPABLE: as a process starts
    started = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True)
    assert started.stdout == "1\n"
    done = subprocess.run([sys.executable, "-c", VAULT], capture_output=True, text=True, check=True)
    assert done.stdout == "(0, 0) 0\n"


@pytest.mark.parametrize("constant_time", [False, True])
def test_the_policy_decides_on_constant_time(tmp_path, constant_time):
    """M7: the service asks its vault for what `policy.toml` says."""
    folder, asked = Folder(tmp_path / "service"), []
    folder.create(PASSPHRASE)
    folder.policy.write_text(f"constant_time = {str(constant_time).lower()}\nallow_insecure = true\n")

    class Watched(VaultProcess):
        def ask(self, fields, tensors):
            asked.append(fields)
            return super().ask(fields, tensors)

    store, vault = Store(folder.database, folder.log), Watched(PASSPHRASE)
    root, policy = read_root(folder.root, PASSPHRASE), read_policy(folder.policy)
    service = KeyService(folder, root, store, vault, policy, workers=1)
    members = {str(client): f"phone-{client}" for client in range(3)}
    run = Run(run="run", size=3, profile="insecure-test", members=members, aggregators=["aggregator"])
    service.register_run(run, Identity("admin", "admin"))
    key = service._key("run")
    assert key.decrypt(key.encrypt([1, 2, 3]), 3).tolist() == [1, 2, 3]
    store.close()
    vault.close()
    assert [fields.get("constant_time") for fields in asked] == [None, int(constant_time)]  # generate, decrypt


@pytest.mark.parametrize("constant_time", [False, True])
def test_constant_time_reaches_the_exponentiation(path, monkeypatch, constant_time):  # noqa: F811
    used, power = [], gmpy2.powmod  # not in constant time

    def counted(*numbers):
        used.append(1)
        return power(*numbers)

    vault = Vault(PHRASE)

    class Here(VaultProcess):
        def __init__(self) -> None: ...

        def ask(self, fields, tensors):
            return parse_any(vault.answer(serialize("request", fields, tensors)), "done")[1]

    key = VaultKey(Here(), path, constant_time=constant_time)
    rows = key.encrypt([1, 2, 3])
    key.decrypt(rows, 3)  # the key is read
    monkeypatch.setattr(gmpy2, "powmod", counted)
    assert key.decrypt(rows, 3).tolist() == [1, 2, 3]
    assert bool(used) != constant_time
