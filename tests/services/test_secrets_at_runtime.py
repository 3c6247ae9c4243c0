"""What others on the machine can read of a running service: no passphrase in its environment, no core dump."""

from __future__ import annotations

import gmpy2
import pytest

from sensecrypt.protocol.envelope import seal, unseal_any
from sensecrypt.services.dkms.policy import Policy
from sensecrypt.services.dkms.vault import Vault
from sensecrypt.services.dkms.vaultkey import VaultKey, VaultProcess
from tests.services.conftest import PASSPHRASE
from tests.services.test_vault import PHRASE, path  # noqa: F401  (a fixture)


def processes(server) -> list[int]:
    from pathlib import Path

    main = server.process.pid
    return [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]


def test_the_passphrase_is_in_no_environment(server):
    from pathlib import Path

    assert len(processes(server)) == 2
    for pid in processes(server):
        assert PASSPHRASE.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_no_process_leaves_a_core_or_can_be_traced(server):
    from pathlib import Path

    for pid in processes(server):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        [line] = [line for line in limits if line.startswith("Max core file size")]
        assert line.split()[4:6] == ["0", "0"]


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
            return unseal_any(vault.answer(seal("request", fields, tensors)), "done")[1]

    key = VaultKey(Here(), path, constant_time=constant_time)
    rows = key.encrypt([1, 2, 3])
    key.decrypt(rows, 3)  # the key is read
    monkeypatch.setattr(gmpy2, "powmod", counted)
    assert key.decrypt(rows, 3).tolist() == [1, 2, 3]
    assert bool(used) != constant_time
    assert Policy(constant_time=constant_time).constant_time == constant_time
