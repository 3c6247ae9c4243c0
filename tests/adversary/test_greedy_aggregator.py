"""Aggregators of one run that take what the key service has only so much of, and other runs' aggregators need.

Before, four sums whose bodies never arrived kept every other aggregator out (`busy`) for as long as they were sent
again; sums without tags used up the decryptions of all runs, though nothing was decrypted; and rounds could be
registered 50 times a second: 1.7 GB of audit log a day. Three aggregators that registered rounds of a cluster whose sum
was being decrypted held all threads of the service, and a member waited 4.9 s.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from sensecrypt.errors import Refused, SenseCryptError
from sensecrypt.keyservice.http.addresses import round_address
from sensecrypt.keyservice.pki import create_authority
from sensecrypt.protocol.round import RoundAddress
from tests.adversary.flood import seconds_to_answer, wait_until
from tests.adversary.test_flooded_service import IN_TIME
from tests.keyservice.conftest import Server, certificate, make_server
from tests.keyservice.rounds import Played

GREEDY = "mallory"


@pytest.fixture
def service(tmp_path) -> Iterator[Server]:
    pki = tmp_path / "pki"
    create_authority(pki)
    server = make_server(tmp_path / "service", pki, decryptions_per_minute=3, rounds_per_minute=4).start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()


@pytest.fixture
def patient(tmp_path, pki) -> Iterator[Server]:
    """A service without limits that would end the storm sooner."""
    server = make_server(tmp_path / "service", pki).start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()


def greedy_run(played: Played) -> str:
    """A run of the same members that names the greedy aggregator."""
    good = {"size": played.size, "profile": "insecure-test", "members": played.members, "min_contributors": 2}
    with played.admin() as admin:
        admin.register_run("greedy", **good, aggregators=[GREEDY])
    for client, count in played.samples.items():
        with played.client(client) as identity:
            identity.report_samples("greedy", count)
    return "greedy"


def waiting(played: Played) -> int:
    with played.server.browser("admin", "admin") as admin:
        lines = admin.get("/metrics").text.splitlines()
    [line] = [line for line in lines if line.startswith("sensecrypt_dkms_releases_waiting")]
    return int(line.split()[-1])


def send_slowly(server: Server, address: str, stack: contextlib.ExitStack) -> None:
    """The header of a sum, and two bytes of its body."""
    host, port = server.url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=str(server.pki / "ca.crt"))
    context.load_cert_chain(*certificate(server.pki, "aggregator", GREEDY))
    raw = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
    connection = stack.enter_context(context.wrap_socket(raw, server_hostname=host))
    connection.sendall(f"PUT {address} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n..".encode())


def test_bodies_that_never_arrive_keep_no_other_aggregator_waiting(service):
    played = Played(service)
    round_ = played.register(played.round())
    whole, run = played.upload(round_), greedy_run(played)
    with contextlib.ExitStack() as stack:
        for attempt in range(6):
            send_slowly(service, f"{round_address(RoundAddress(run, 0, 0, 'model', attempt))}/aggregate", stack)
        wait_until(lambda: waiting(played) >= 2)
        with service.identity("aggregator", "aggregator", tries=1) as aggregator:
            released = aggregator.release(whole.to_bytes(round_), round_)
        assert released.contributors == (0, 1, 2, 3)
        assert waiting(played) == 2
        assert service.refusals().count("busy") == 4  # the greedy one's
    wait_until(lambda: waiting(played) == 0)


def test_sums_without_tags_use_up_nobody_s_decryptions(service):
    played = Played(service)
    round_ = played.register(played.round())
    whole, other = played.upload(round_), Played(service)
    bare = other.register(other.round())
    without = other.upload(bare, tags=[]).to_bytes(bare)
    with other.aggregator() as greedy:
        for _ in range(8):
            with pytest.raises(Refused) as refusal:
                greedy.release(without, bare)
            assert refusal.value.code == "no-tag"
    assert played.release(whole, round_).contributors == (0, 1, 2, 3)


def test_rounds_are_registered_so_often_and_no_more(service):
    played = Played(service)
    with service.identity("aggregator", "aggregator", tries=1) as greedy:
        registered = 0
        with contextlib.suppress(Refused):
            for attempt in range(60):
                greedy.register_round(played.round(attempt=attempt))
                registered += 1
    assert 40 <= registered < 50  # ten minutes' worth at once
    assert service.refusals().count("rate-limited") == 1
    assert "registers and submits more than 4 times a minute" in service.audit()[-1]["reason"]
    run = greedy_run(played)
    with service.identity("aggregator", GREEDY, tries=1) as other:  # it is that aggregator's limit, not everybody's
        assert other.run(run)["aggregators"] == [GREEDY]
        played.run = run
        other.register_round(played.round())


def test_rounds_that_have_to_wait_for_a_decryption_keep_no_member_waiting(patient):
    """Sixteen connections of each of three aggregators: more than the service has threads."""
    service, played, long = patient, Played(patient), Played(patient, size=20_000, profile="paillier-2048")
    round_, names = played.register(played.round()), ["aggregator", "second", "third"]
    asked = {"size": long.size, "profile": "paillier-2048", "members": long.members, "min_contributors": 2}
    with long.admin() as admin:
        admin.register_run("shared", **asked, aggregators=names)
    long.run = "shared"
    long.report_samples()
    decrypted = long.register(long.round())
    whole, done = long.upload(decrypted), threading.Event()

    def register(name: str) -> None:
        with service.identity("aggregator", name, tries=1) as greedy:
            while not done.is_set():
                with contextlib.suppress(SenseCryptError):  # refused, or its connection closed for another of its own
                    greedy.register_round(long.round(attempt=1))

    release = threading.Thread(target=lambda: long.release(whole, decrypted))
    for name in names:  # issued before the threads ask for them at once
        certificate(service.pki, "aggregator", name)
    storm = [threading.Thread(target=register, args=(name,)) for name in names for _ in range(16)]
    release.start()
    wait_until(lambda: long.events("sum-claimed"))
    for thread in storm:
        thread.start()
    waited = []
    while release.is_alive() and len(waited) < 5:
        waited.append(seconds_to_answer(played, round_))
    done.set()
    for thread in (release, *storm):
        thread.join()
    assert "busy" in service.refusals()
    assert waited
    assert max(waited) < IN_TIME
