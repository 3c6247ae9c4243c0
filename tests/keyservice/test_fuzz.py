"""The whole surface as /openapi.json tells it, fuzzed with every role: no failure of the service, no secret told."""

from __future__ import annotations

import base64
import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sensecrypt.keyservice.http.storagecipher import read_root
from sensecrypt.protocol.round import address_of, describe_round
from tests.keyservice.conftest import PASSPHRASE
from tests.keyservice.rounds import Played

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies
    import schemathesis

EXAMPLES = 5
ROLES = {"admin": "admin", "aggregator": "aggregator", "client": "phone-0", "monitor": "prometheus"}


@pytest.fixture(scope="module")
def played(server) -> Played:
    played = Played(server)
    played.play(played.round())
    return played


def secrets_of(played: Played) -> list[bytes]:
    """What must never be in an answer to somebody it is not for: the root, the passphrase, secret primes, seeds."""
    from sensecrypt.crypto.keyfile import read_secret

    root = read_root(played.server.folder.root, PASSPHRASE)
    secret = read_secret(played.server.folder.key(played.run), PASSPHRASE)
    raw = [root, PASSPHRASE.encode()]
    for prime in secret.primes():
        number = int(prime)
        raw += [f"{number:x}".encode(), str(number).encode(), number.to_bytes(32, "big")]
    return [form for each in raw for form in (each, each.hex().encode(), base64.b64encode(each).rstrip(b"="))]


def test_no_address_fails_and_none_tells_a_secret(server, played):
    forbidden = secrets_of(played)
    statuses: dict[str, set[int]] = {}
    with server.browser("admin", "admin") as browser:
        document = browser.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) == len([1 for paths in document["paths"].values() for _ in paths])
    for role, name in ROLES.items():
        with server.browser(role, name) as browser:
            for operation in operations:
                statuses[f"{role} {operation.label}"] = fuzz(operation, browser, played, forbidden)
    assert len(statuses) == len(operations) * len(ROLES)
    assert {200, 422} <= set().union(*statuses.values())
    assert "Traceback" not in server.stderr()
    log = server.folder.log.read_bytes()
    assert not any(secret in log for secret in forbidden)


def fuzz(operation, browser, played: Played, forbidden: list[bytes]) -> set[int]:
    """Generated requests to one address by one role; the statuses of the answers."""
    statuses = set()

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        answer = send(browser, case, played)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, (operation.label, answer.text)
        assert not any(secret in answer.content for secret in forbidden)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"title", "status", "code", "detail", "fix"}

    ask()
    return statuses


def send(browser, case, played: Played):
    """A generated request, half of the time at a run and round that exist."""
    parts = case.as_transport_kwargs(base_url=str(browser.base_url))
    url = parts["url"]
    if len(url) % 2:
        url = re.sub(r"/v1/runs/[^/]*", f"/v1/runs/{played.run}", url)
        url = re.sub(r"/rounds/.*?/clusters/[^/]*/[^/]*/[^/]*", "/rounds/0/clusters/0/model/0", url)
    body = parts.get("data") or b""
    if parts.get("json") is not None:
        return browser.request(parts["method"], url, json=parts["json"])
    return browser.request(parts["method"], url, content=body if isinstance(body, (bytes, str)) else bytes(body))


def test_damaged_messages_are_refused_and_nothing_more(server):
    played = Played(server)
    round_ = played.register(played.round(7))
    where = f"/v1/runs/{played.run}/rounds/7/clusters/0/model/0"
    protected, aggregate = played.protect(round_, 0), played.upload(round_, [1, 2])
    messages = {
        ("aggregator", "aggregator", where): describe_round(round_),
        ("aggregator", "aggregator", f"{where}/aggregate"): aggregate.to_bytes(round_),
        ("client", "phone-0", f"{where}/tag"): protected.tag,
    }
    for (role, name, address), message in messages.items():
        with server.browser(role, name) as browser:
            damage(browser, address, message)
    assert "Traceback" not in server.stderr()


def damage(browser, address: str, message: bytes) -> None:
    """Send the message with a few bytes changed, cut off or added."""

    @given(
        changes=st.lists(st.tuples(st.integers(0, len(message) - 1), st.integers(0, 255)), max_size=4),
        cut=st.one_of(st.none(), st.integers(0, len(message))),
        more=st.binary(max_size=4),
    )
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def send_damaged(changes, cut, more):
        damaged = bytearray(message)
        for position, value in changes:
            damaged[position] = value
        answer = browser.put(address, content=bytes(damaged[:cut]) + more)
        assert answer.status_code < 500, answer.text

    send_damaged()


def test_the_document_has_no_examples_and_names_every_address(server):
    with server.browser("client", "phone-0") as browser:
        document = browser.get("/openapi.json")
    assert "example" not in document.text
    assert len(document.json()["paths"]) >= 12


def test_answers_and_logs_of_a_round_tell_no_secret(server):
    """Seeds go to members and nowhere else; values go nowhere but into models."""
    played = Played(server)
    round_ = played.round()
    played.play(round_)
    with played.client(0) as client:
        row = np.arange(1.0, 65.0) / 300
        seeds = [
            client.task(address_of(round_)).seed,
            row.tobytes()[:64],
            client.rotate_sketch(played.run, row).tobytes()[:64],
        ]
    log = server.folder.log.read_bytes() + server.stderr().encode()
    database = server.folder.database.read_bytes()
    for path in server.folder.path.glob("state.db-*"):
        database += path.read_bytes()
    for seed in seeds:
        assert seed not in log
        assert seed.hex().encode() not in log
        assert seed not in database
    model = played.model(round_)
    assert model.tobytes()[:40] not in database
    with played.client(0) as client:
        assert client.moved(address_of(round_), round_.size).tobytes()[:40] not in database
