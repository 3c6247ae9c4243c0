"""With a real key service over TLS: the wrapper as aggregator, each node with its own identity file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdam, FedAvg

from sensecrypt.errors import InvalidInput, Refused, Rejected
from sensecrypt.flower import SenseCrypt
from sensecrypt.flower.remote import IDENTITY_VARIABLE
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.protocol.round import RoundAddress
from tests.flower.loop import FAST, Loop, client_app, largest_difference, model, plain, play
from tests.keyservice.conftest import Server, certificate, make_server, pki

__all__ = ["pki"]
AGREED = "release_to_aggregator = true\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory, pki):
    folder = tmp_path_factory.mktemp("app-keys") / "service"
    running = make_server(folder, pki, decryptions_per_minute=10_000, release_to=["app"])
    running.start()
    yield running
    assert running.end() == 0
    assert "Traceback" not in running.stderr()


class Deployment:
    """Identity files of an app and its nodes."""

    def __init__(self, server: Server, folder: Path, patch: pytest.MonkeyPatch, *, agreed: str = AGREED):
        self.server, self.folder, self.agreed = server, folder, agreed
        patch.setenv(IDENTITY_VARIABLE, str(self.identity("aggregator", "app", "")))

    def identity(self, role: str, name: str, more: str) -> Path:
        crt, key = certificate(self.server.pki, role, name)
        path = self.folder / f"{name}.toml"
        path.write_text(
            f'url = "{self.server.url}"\ncertificate = "{crt}"\nkey = "{key}"\n'
            f'authority = "{self.server.pki / "ca.crt"}"\nstate = "state-{name}"\n{more}'
        )
        return path

    def node(self, node: int) -> dict[str, str]:
        path = self.folder / f"phone-{node}.toml"
        if not path.exists():
            self.identity("client", f"phone-{node}", self.agreed)
        return {"sensecrypt-identity": str(path)}

    def loop(self, **more) -> Loop:
        return Loop(config=self.node, **more)

    def strategy(self, inner=None, **more) -> SenseCrypt:
        return SenseCrypt(inner or FedAvg(), **{"key_service": self.server.url, "profile": FAST, **more})


@pytest.fixture
def deployment(server, tmp_path, monkeypatch):
    return Deployment(server, tmp_path, monkeypatch)


@pytest.mark.parametrize("make", [FedAvg, lambda: FedAdam(eta=0.1)])
def test_the_same_model_as_without_encryption(deployment, make):
    found = play(deployment.strategy(make()), deployment.loop())
    assert largest_difference(plain(make()), found) < 1e-5


def test_replies_have_neither_tag_nor_seed(deployment):
    """What the aggregator's side sees of a client: one upload, and metrics."""
    names, told = [], []

    def look(node, reply):
        names.append(set(reply.content["arrays"]))
        return reply

    def note(node, message):
        told.append(message.content["sensecrypt"]["task"] + message.content["sensecrypt"]["public-key"])
        return message

    play(deployment.strategy(), deployment.loop(before=note, after=look), rounds=1)
    assert names == [{"upload"}] * 5
    assert told == [b""] * 5


def test_a_node_asks_the_key_service_for_little(deployment, monkeypatch):
    asked = []
    send = DkmsClient._send

    def counted(self, method, address, **more):
        asked.append(f"{method} {re.sub(r'[?].*', '', address).rsplit('/', 1)[-1]}")
        return send(self, method, address, **more)

    monkeypatch.setattr(DkmsClient, "_send", counted)
    strategy = deployment.strategy()
    grid = deployment.loop()
    play(strategy, grid, rounds=1)
    first = len(asked)
    asked.clear()
    play_second(strategy, grid)
    assert (first, len(asked)) == (6 * 5 + 8, 2 * 5 + 4)


def play_second(strategy, grid):
    """Round 2 of the same run, from another model."""
    from tests.flower.loop import record

    messages = strategy.configure_train(2, record(model(5)), _config(), grid)
    strategy.aggregate_train(2, grid.send_and_receive(messages))


def _config():
    from flwr.app import ConfigRecord

    return ConfigRecord()


def test_a_node_that_did_not_agree_sends_nothing(server, tmp_path, monkeypatch):
    strict = Deployment(server, tmp_path, monkeypatch, agreed="")
    with pytest.raises(Rejected, match="condition release_to_aggregator: the ServerApp would receive the sum"):
        play(strict.strategy(), strict.loop(), rounds=1)


def test_a_node_with_an_identity_gives_an_in_process_server_nothing(deployment):
    """Else a ServerApp could have seeds and tags sent to itself, and read every update."""
    strategy = SenseCrypt(FedAvg(), key_service="in-process", profile=FAST)
    with pytest.raises(Rejected, match="is in-process, where the ServerApp could read every update"):
        play(strategy, deployment.loop(), rounds=1)


def test_a_node_without_an_identity_says_what_is_missing(deployment):
    with pytest.raises(Rejected, match="sensecrypt-identity: is not in this node's configuration"):
        play(deployment.strategy(), Loop(), rounds=1)


def test_the_app_needs_its_own_identity_and_address(deployment, monkeypatch):
    with pytest.raises(InvalidInput, match="key_service: is 'https://elsewhere:1'"):
        SenseCrypt(FedAvg(), key_service="https://elsewhere:1")
    monkeypatch.delenv(IDENTITY_VARIABLE)
    with pytest.raises(InvalidInput, match="SENSECRYPT_AGGREGATOR: is not set"):
        deployment.strategy()


def test_an_app_that_the_policy_does_not_name_registers_nothing(deployment, monkeypatch):
    monkeypatch.setenv(IDENTITY_VARIABLE, str(deployment.identity("aggregator", "other-app", "")))
    with pytest.raises(Refused, match="other-app: it is not in the policy's release_to"):
        play(deployment.strategy(), deployment.loop(), rounds=1)


def test_a_node_that_is_killed_or_late_is_left_out(deployment):
    gone = deployment.loop(nodes=6, before=lambda node, message: None if node == 102 else message)
    other = Loop(client_app(mods=()), nodes=6, before=lambda node, message: None if node == 102 else message)
    assert largest_difference(play(FedAvg(), other), play(deployment.strategy(), gone)) < 1e-6


def test_a_reply_that_is_killed_after_its_tag_is_left_out(deployment):
    gone = deployment.loop(nodes=6, after=lambda node, reply: None if node == 104 else reply)
    other = Loop(client_app(mods=()), nodes=6, after=lambda node, reply: None if node == 104 else reply)
    assert largest_difference(play(FedAvg(), other), play(deployment.strategy(), gone)) < 1e-6


def test_the_key_service_is_killed_and_started_again_in_a_round(deployment):
    done = []

    def restart(node, message):
        if node == 103 and not done:
            done.append(node)
            deployment.server.kill()
            deployment.server.start("--port", deployment.server.url.rsplit(":", 1)[1])
        return message

    found = play(deployment.strategy(), deployment.loop(before=restart))
    assert done
    assert largest_difference(plain(FedAvg()), found) < 1e-6


def test_nothing_is_released_twice(deployment):
    """The same sum again is answered from what is kept; another one of the round is refused."""
    strategy, grid = deployment.strategy(), deployment.loop()
    replies = []
    collect = strategy._release

    def twice(usable, playing, problems):
        first = collect(usable, playing, problems)
        again = collect(usable, playing, problems)
        assert (first.values == again.values).all()
        fewer = {number: usable[number] for number in sorted(usable)[:4]}
        with pytest.raises(Refused) as caught:
            collect(fewer, playing, problems)
        replies.append(caught.value.code)
        return first

    strategy._release = twice
    play(strategy, grid, rounds=1)
    assert replies == ["already-decrypted"] or replies == ["claimed"]


def test_a_tampered_reply_is_named_by_its_certificate(deployment, caplog):
    from tests.flower.test_refusals import as_upload, swap

    def flip(node, reply):
        data = bytearray(reply.content["arrays"]["upload"].data) if node == 103 else b""
        if node == 103:
            data[-1] ^= 1
        return swap(103, as_upload(bytes(data)))(node, reply)

    play(deployment.strategy(), deployment.loop(nodes=6, after=flip), rounds=1)
    assert any("phone-103 (node 103)" in each.getMessage() for each in caplog.records if each.levelname == "WARNING")


def test_the_sum_is_for_the_aggregator_of_that_run_alone(deployment):
    strategy = deployment.strategy()
    play(strategy, deployment.loop(), rounds=1)
    place = RoundAddress(strategy._run, 1, 0, "model", 0)
    server = deployment.server
    for role, name, code in (("client", "phone-100", "wrong-role"), ("aggregator", "aggregator", "not-the-aggregator")):
        with server.identity(role, name) as other, pytest.raises(Refused) as caught:
            other._send("GET", f"/v1/runs/{place.run}/rounds/1/clusters/0/model/0/sum")
        assert caught.value.code == code
    with server.identity("client", "phone-100") as member, pytest.raises(Refused) as caught:
        member.moved(place, 10)
    assert caught.value.code == "not-released"


def test_an_admins_run_hands_no_sum_to_its_aggregator(deployment):
    server = deployment.server
    with server.identity("admin", "admin") as admin:
        members = {0: "phone-100", 1: "phone-101", 2: "phone-102"}
        admin.register_run("members-only", size=10, profile=FAST, members=members, min_contributors=3)
    with server.identity("aggregator", "aggregator") as aggregator, pytest.raises(Refused) as caught:
        aggregator._send("GET", "/v1/runs/members-only/rounds/1/clusters/0/model/0/sum")
    assert caught.value.code == "not-the-aggregator"


def test_an_aggregator_registers_no_run_of_the_usual_kind(deployment):
    asked = {"size": 10, "profile": FAST, "min_contributors": 3, "aggregators": ["app"]}
    with deployment.server.identity("aggregator", "app") as app:
        with pytest.raises(Refused, match="registers runs with release_to_aggregator only"):
            app.register_run("own", members={0: "a", 1: "b", 2: "c"}, **asked)
        with pytest.raises(Refused, match="with itself as the only aggregator"):
            app.register_run("own", members={}, **{**asked, "aggregators": ["app", "b"]}, release_to_aggregator=True)
        with pytest.raises(Refused, match="members join such a run themselves"):
            app.register_run("own", members={0: "app-friend"}, **asked, release_to_aggregator=True)


def test_values_are_those_of_the_start(deployment):
    """A round in which nobody moves gives the start itself."""
    start = {"w": np.linspace(-2, 2, 11)}
    app = client_app(mods=())
    from sensecrypt.flower import sensecrypt_mod

    def still(message, context, call_next):
        from flwr.app import Message, MetricRecord, RecordDict

        arrays = message.content["arrays"]
        return Message(RecordDict({"a": arrays, "m": MetricRecord({"num-examples": 3})}), reply_to=message)

    app = client_app(mods=(sensecrypt_mod, still))
    found = play(deployment.strategy(FedAvg(fraction_evaluate=0.0)), deployment.loop(app=app), rounds=1, start=start)
    assert np.abs(found.arrays["w"].numpy() - start["w"]).max() < 1e-9
