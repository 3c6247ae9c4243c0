"""`kill -9` at the worst moments: no tag is lost, nothing is decrypted twice, the audit log verifies."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.errors import Refused, SenseCryptError
from sensecrypt.protocol.round import address_of
from tests.keyservice.conftest import make_server
from tests.keyservice.rounds import CLIENTS, Played, expected_model


@pytest.fixture
def server(tmp_path, pki):
    server = make_server(tmp_path / "service", pki).start()
    yield server
    if server.process is not None:
        server.end()
    assert "Traceback" not in server.stderr()


def verified(server) -> None:
    result = CliRunner().invoke(main, ["dkms", "audit", "--folder", str(server.folder.path)])
    assert result.exit_code == 0, result.output


def test_between_tags_and_decryption(server):
    played = Played(server)
    played.play(played.round(0, purpose="sensitivity"))
    round_ = played.register(played.round(0))
    with played.client(0) as client:
        sketch = client.rotate_sketch(played.run, np.arange(8.0)).tolist()
        seeds = sketch, client.task(address_of(round_)).seed, client.task(address_of(round_)).ranking.order.tolist()
        key = client.public_key(played.run)
    aggregate = played.upload(round_)
    server.kill()
    verified(server)
    server.start()
    with played.client(0) as client:
        sketch = client.rotate_sketch(played.run, np.arange(8.0)).tolist()
        again = sketch, client.task(address_of(round_)).seed, client.task(address_of(round_)).ranking.order.tolist()
        assert (again, client.public_key(played.run)) == (seeds, key)
    with played.aggregator() as aggregator:
        assert aggregator.tags(round_) == list(range(CLIENTS))
    first = played.release(aggregate, round_)
    server.kill()
    verified(server)
    server.start()
    assert played.release(aggregate, round_) == first
    other = replace(aggregate, plain=aggregate.plain + 1)
    with pytest.raises(Refused, match="decrypted already"):
        played.release(other, round_)
    assert played.model(round_, 3).tobytes() == expected_model(played).tobytes()
    assert len([line for line in played.events("decrypted") if line["purpose"] == "model"]) == 1
    assert len([line for line in played.events("tag-taken") if line["purpose"] == "model"]) == CLIENTS
    verified(server)


@pytest.mark.slow
def test_in_the_middle_of_a_decryption(server):
    played = Played(server, size=40_000, profile="paillier-2048")
    round_ = played.register(played.round())
    aggregate = played.upload(round_)
    message = aggregate.to_bytes(round_)

    def ask() -> None:
        with server.identity("aggregator", "aggregator", tries=1) as aggregator, pytest.raises(SenseCryptError):
            aggregator.release(message, round_)

    asking = threading.Thread(target=ask)
    asking.start()
    while not played.events("sum-claimed"):
        time.sleep(0.01)
    server.kill()
    asking.join()
    assert played.events("decrypted") == []
    verified(server)
    server.start()
    other = replace(aggregate, plain=aggregate.plain + 1)
    with pytest.raises(Refused) as refusal:  # another sum of the same attempt must not be decrypted now
        played.release(other, round_)
    assert refusal.value.code == "claimed"
    played.release(aggregate, round_)
    assert len(played.events("decrypted")) == 1
    assert played.model(round_).tobytes() == expected_model(played).tobytes()
    verified(server)


@pytest.mark.slow
def test_health_is_answered_while_a_sum_is_decrypted(server):
    played = Played(server, size=40_000, profile="paillier-2048")
    round_ = played.register(played.round())
    aggregate = played.upload(round_)
    release = threading.Thread(target=played.release, args=(aggregate, round_))
    release.start()
    answered = 0
    with server.browser() as browser:
        while release.is_alive():
            assert browser.get("/healthz").status_code == 200
            answered += release.is_alive()
    assert answered > 20
    assert played.model(round_).tobytes() == expected_model(played).tobytes()


def test_the_vault_dies_and_is_started_again(server):
    import os
    import signal
    from pathlib import Path

    played = Played(server)
    round_ = played.register(played.round())
    aggregate = played.upload(round_)
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    [vault] = [int(pid) for pid in children if b"vault" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(vault, signal.SIGKILL)
    assert played.release(aggregate, round_).contributors == tuple(range(CLIENTS))
    server.kill()
    for _ in range(100):
        if not Path(f"/proc/{vault}").exists():
            break
        time.sleep(0.05)
    server.start()
    assert played.model(round_).tobytes() == expected_model(played).tobytes()


def test_a_stopped_service_says_so_and_leaves_no_process(server):
    from pathlib import Path

    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    assert server.end() == 0
    assert [line["event"] for line in server.audit()] == ["initialised", "started", "stopped"]
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    verified(server)
