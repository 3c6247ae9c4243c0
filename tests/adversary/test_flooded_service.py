"""H5, H6, M2, L4: whoever floods the key service keeps nobody else from it, during the flood and after it.

Counts are scaled down with the service's own limits. At full size and with the default policy, before and after:
1,100 idle TCP connections (nobody connects / 15 ms), 2,010 silent TLS connections (503 for all / 21 ms), 60 unread
answers of 48 MB (3.8 GB / 0.6 GB at most).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sensecrypt import Mask
from sensecrypt.errors import Refused
from sensecrypt.keyservice.http.addresses import round_address
from sensecrypt.keyservice.http.connections import RESERVE
from sensecrypt.keyservice.pki import create_authority
from sensecrypt.protocol.protection import protect_model
from sensecrypt.protocol.round import Round, address_of
from tests.adversary.flood import (
    Flood,
    descriptors,
    is_closed,
    most_files,
    open_files,
    resident_megabytes,
    seconds_to_answer,
    wait_until,
)
from tests.keyservice.conftest import Server, make_server
from tests.keyservice.rounds import CLIENTS, Played

IN_TIME = 2.0  # seconds
SOFT = 160  # open files that the service is started with
LIMITS = {
    "handshakes": 40,
    "strangers": 8,
    "strangers_per_address": 4,
    "connections": 60,
    "connections_per_certificate": 6,
    "handshake_seconds": 2,
    "header_seconds": 2,
    "write_seconds": 2,
    "lines_per_minute": 5,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Server]:
    pki = tmp_path_factory.mktemp("pki")
    create_authority(pki)
    server = make_server(tmp_path_factory.mktemp("dkms") / "service", pki, **LIMITS)
    with descriptors(SOFT):
        server.start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()


@pytest.fixture(scope="module")
def played(service) -> Played:
    return Played(service)


@pytest.fixture(scope="module")
def round_(played) -> Round:
    return played.register(played.round())


def test_idle_tcp_connections(service, played, round_):
    before = open_files(service)
    assert most_files(service) > sum(LIMITS[kind] for kind in ("handshakes", "strangers", "connections")) + RESERVE
    with Flood(service) as stranger:
        stranger.idle(2 * SOFT)
        assert seconds_to_answer(played, round_) < IN_TIME
        assert stranger.open_ones() <= LIMITS["handshakes"]
        assert open_files(service) <= before + LIMITS["handshakes"] + 5
        time.sleep(LIMITS["handshake_seconds"] + 0.5)
        assert stranger.open_ones() == 0
        assert seconds_to_answer(played, round_) < IN_TIME
    assert seconds_to_answer(played, round_) < IN_TIME
    with service.browser() as browser:
        assert browser.get("/healthz").json() == {"status": "ok"}


def test_silent_tls_connections_without_a_certificate(service, played, round_):
    with Flood(service) as stranger:
        stranger.silent(SOFT)
        assert seconds_to_answer(played, round_) < IN_TIME
        assert stranger.open_ones() <= LIMITS["strangers_per_address"]
        time.sleep(LIMITS["header_seconds"] + 0.5)
        assert stranger.open_ones() == 0
    assert seconds_to_answer(played, round_) < IN_TIME


def test_silent_tls_connections_of_a_certificate(service, played, round_):
    with Flood(service) as member:
        member.silent(SOFT, name="phone-0")
        assert seconds_to_answer(played, round_) < IN_TIME
        assert 0 < member.open_ones() <= LIMITS["connections_per_certificate"]
    assert seconds_to_answer(played, round_) < IN_TIME


def test_a_request_whose_header_never_ends(service):
    with Flood(service) as member:
        connection = member.wrapped("phone-0")
        member.held.append(connection)
        connection.sendall(b"GET / HTTP/1.1\r\n")
        start = time.monotonic()
        while not is_closed(connection) and time.monotonic() < start + 8:
            try:
                connection.sendall(b"x-more: 1\r\n")
            except OSError:
                break
            time.sleep(0.2)
        assert time.monotonic() - start < LIMITS["header_seconds"] + 1.5


def test_unread_answers(service):
    large = Played(service, size=2_000_000)
    round_ = large.register(large.round())
    large.protect = lambda place, client: _blinded(large, place, client)
    large.release(large.upload(round_), round_)
    with large.client(1) as identity:
        identity.moved(address_of(round_), round_.size)  # one copy is kept for all
    path, before = f"{round_address(round_)}/model", resident_megabytes(service)
    with Flood(service) as members:
        for client in range(CLIENTS):
            members.unread(5, path, name=f"phone-{client}")
        time.sleep(0.5)
        assert resident_megabytes(service) < before + 30  # of 160, and of 64 that are granted
        assert seconds_to_answer(large, round_, client=3) < IN_TIME
        with service.identity("admin", "admin") as admin:
            wait_until(lambda: _given_up(admin) == 2 * CLIENTS)  # two for each certificate were being sent
        start = time.monotonic()
        assert large.model(round_).size == large.size
        assert time.monotonic() - start < IN_TIME
        time.sleep(1)
        with service.identity("admin", "admin") as admin:
            assert _given_up(admin) == 2 * CLIENTS  # the other three of each were refused, and are not sent later
    assert seconds_to_answer(large, round_) < IN_TIME


def test_the_audit_log_is_not_filled(service, played, round_):
    lines = len(service.audit())
    with service.browser("client", "phone-2") as member:
        for _ in range(100):
            assert member.get("/v1/nothing").status_code == 404
            assert member.get(f"{round_address(round_)}/task").status_code == 200
    assert len(service.audit()) - lines <= 2 * LIMITS["lines_per_minute"] + 3  # and those of half a minute
    with played.client(3) as other, pytest.raises(Refused):
        other.tags(round_)
    assert service.audit()[-1]["name"] == "phone-3"


def _blinded(played: Played, round_: Round, client: int):
    """An upload that is blinded whole: large, and quickly made."""
    with played.client(client) as identity:
        key, seed = identity.public_key(played.run), identity.task(address_of(round_)).seed
    mask = Mask.prefix(0, size=played.size, block=round_.block)
    return protect_model(played.models[client], mask, round_, client=client, key=key, seed=seed, blinded=True)


def _given_up(admin) -> int:
    text = admin._http.get("/metrics").text
    [line] = [line for line in text.splitlines() if line.startswith("sensecrypt_dkms_answers_given_up_total")]
    return int(line.split()[-1])
