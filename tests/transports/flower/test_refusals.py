"""A node that is not who it says, or sends what it should not, is left out; the others' round goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flwr.app import Message

from sensecrypt.client.problem import configured_share
from sensecrypt.config import change
from sensecrypt.errors import SenseCryptError
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.messages import Tag
from sensecrypt.protocol.requests import Enrolment, Parts, facts_to_bytes, require_parts
from sensecrypt.records import Facts, Refusal, servers_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.flower import client_app
from sensecrypt.transports.flower.wire import pack, unpack

ALL = {"proof", "enrolment", "facts", "upload", "sensitivity", "model_sha256"}


@pytest.fixture
def altered(fleet):
    """A fleet of which client 3 answers messages of one kind with something else."""

    def make(kind: str, alter, **settings):
        played = fleet(**{"rounds": 1, **settings})
        honest = played.app

        def app(message: Message, context) -> Message:
            reply = honest(message, context)
            if message.metadata.message_type != kind or context.node_id != 103:
                return reply
            parts = dict(require_parts(unpack(reply.content), needed=set(), allowed=ALL))
            return Message(pack(alter(parts, message, context)), reply_to=message)

        played.app = app
        return played

    return make


def left_out(outcome) -> dict[int, str]:
    return {record.client: record.left_out for record in outcome.records if record.left_out is not None}


def test_a_node_that_proves_nothing_is_no_client(altered, caplog):
    played = altered("query.prove", lambda parts, *_: {**parts, "proof": b"x"})
    outcome = played.play()
    assert outcome.labels == [0, 0, 0, -1]
    assert "node 103 is not enrolled" in caplog.text


def test_a_stranger_s_certificate_is_no_client(fleet, caplog):
    played = fleet(rounds=1)
    played.identity("client", "stranger")  # issued by the right authority
    text = (played.folder / "stranger.toml").read_text()
    (played.folder / "client-3.toml").write_text(text)
    outcome = played.play()
    assert outcome.labels == [0, 0, 0, -1]
    assert "stranger is not registered with run" in caplog.text
    [refusal] = [record for record in RunFolder(played.state).records() if isinstance(record, Refusal)]
    assert refusal.node == 103
    assert "stranger is not registered with run" in refusal.refused
    assert outcome.summary()["rounds"] == 1


def test_a_proof_of_another_client_cannot_be_used_again(altered, fleet, caplog):
    stolen: dict[int, Parts] = {}

    def steal(parts, message, context):
        return {**parts, "proof": stolen[102]["proof"]}

    played = altered("query.prove", steal)
    app = played.app

    def keep(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "query.prove" and context.node_id == 102:
            stolen[102] = dict(require_parts(unpack(reply.content), needed=set(), allowed=ALL))
        return reply

    played.app = keep
    outcome = played.play()
    assert outcome.labels == [0, 0, 0, -1]
    assert "does not hold" in caplog.text


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (lambda parts, *_: {**parts, "upload": b"x" * 100}, "header"),
        (lambda parts, *_: {**parts, "upload": parts["upload"][:-10]}, "damaged"),
        (lambda parts, *_: {"facts": parts["facts"]}, "a message with the parts facts"),
        (lambda parts, *_: {**parts, "facts": b"?"}, "header"),
        (lambda parts, *_: {**parts, "more": b""}, "a message with the parts"),
    ],
    ids=["noise", "cut", "no-upload", "no-facts", "too-much"],
)
def test_an_upload_that_cannot_be_read_is_left_out(altered, alter, why):
    outcome = altered("train", alter).play()
    assert why in left_out(outcome)[3]
    assert len(outcome.played) == 3


def test_an_upload_without_a_tag_is_left_out(fleet, monkeypatch):
    from sensecrypt.keyservice.http.client import DkmsClient

    played, send = fleet(rounds=1), DkmsClient.send_tag
    monkeypatch.setattr(
        DkmsClient,
        "send_tag",
        lambda self, tag, round_: (
            None if round_.purpose == "model" and self.run(round_.run)["client"] == 3 else send(self, tag, round_)
        ),
    )
    outcome = played.play()
    assert left_out(outcome) == {3: "an upload for which the key service has no tag"}


def test_facts_that_tell_too_little_leave_a_client_out(altered):
    outcome = altered("train", lambda parts, *_: {**parts, "facts": facts_to_bytes(Facts(encrypted_blocks=5))}).play()
    assert "facts without" in left_out(outcome)[3]


def test_a_false_hash_at_the_end_changes_nothing(altered, caplog):
    played = altered("query.finish", lambda parts, *_: {**parts, "model_sha256": b"0" * 64})
    outcome = played.play()
    assert outcome.model_sha256 != ["0" * 64]
    assert "report different models" in caplog.text


def _alter_upload(parts, *_):
    upload = bytearray(parts["upload"])
    upload[-1] = (upload[-1] + 1) % 256  # a plain value
    return {**parts, "upload": bytes(upload)}


def test_who_spoils_every_sum_is_found_and_dismissed(altered, caplog):
    """Nobody can look into an upload: it is found by leaving clients out."""
    played = altered("train", _alter_upload, policy="plaintext", rounds=5)
    outcome = played.play()
    assert outcome.labels == [0, 0, 0, -1]
    assert "client 3 is excluded: sums match their tags only without it" in caplog.text
    rounds = [{record.client for record in outcome.played if record.round == number} for number in range(5)]
    assert all(3 not in clients and len(clients) >= 2 for clients in rounds)
    assert rounds[-1] == {0, 1, 2}
    [refusal] = [record for record in RunFolder(played.state).records() if isinstance(record, Refusal)]
    assert refusal.refused_client == 3


def test_who_spoils_rankings_too_does_not_keep_the_others_from_an_order(fleet):
    played = fleet(rounds=4, order_refresh=1, clients=5, min_contributors=3, rest="plain")
    honest = played.app

    def app(message: Message, context) -> Message:
        reply = honest(message, context)
        if not message.metadata.message_type.startswith("train") or context.node_id != 103:
            return reply
        parts = dict(require_parts(unpack(reply.content), needed=set(), allowed=ALL))
        swapped = {key: _other_ciphertexts(parts[key]) for key in ("upload", "sensitivity") if key in parts}
        return Message(pack({**parts, **swapped}), reply_to=message)

    played.app = app
    outcome = played.play()
    assert outcome.labels == [0, 0, 0, -1, 0]
    assert not any(record.no_new_order is not None for record in servers_of(RunFolder(played.state).records()))


def _other_ciphertexts(message: bytes) -> bytes:
    """The same upload with its first two blocks exchanged: well formed, and wrong."""
    header, tensors = parse_any(message, "upload")
    rows = tensors["ciphertexts"].reshape(-1, get_profile("insecure-test").ciphertext_bytes)
    rows[[0, 1]] = rows[[1, 0]]
    return serialize("upload", header, tensors)


def test_a_sum_that_nobody_explains_ends_the_run(fleet):
    played = fleet(rounds=1, policy="plaintext")
    honest = played.app

    def app(message: Message, context) -> Message:
        reply = honest(message, context)
        if message.metadata.message_type != "train":
            return reply
        parts = dict(require_parts(unpack(reply.content), needed=set(), allowed=ALL))
        return Message(pack(_alter_upload(parts)), reply_to=message)

    played.app = app
    with pytest.raises(SenseCryptError, match=r"sums of this round have failed|does not match the tags"):
        played.play()


@pytest.mark.parametrize("clustering", ["auto", "none"])
def test_a_client_with_another_model_is_left_out(fleet, clustering, caplog):
    def load(config, client):
        return configured_share(change(config, {"seed": 1 if client == 3 else 0}), client)

    played = fleet(rounds=2, clustering=clustering)
    played.app = client_app(load)
    outcome = played.play()
    assert outcome.labels == [0, 0, 0, -1]
    assert "client 3 starts from another model than most" in caplog.text


def test_clients_without_a_common_model_stop_the_run_before_it_starts(fleet):
    def load(config, client):
        return configured_share(change(config, {"seed": client % 2}), client)

    played = fleet(rounds=1)
    played.app = client_app(load)
    with pytest.raises(SenseCryptError, match="at most 2 of 4 from the same; give all clients the same code"):
        played.play()


def test_a_description_of_another_length_is_left_out(altered):
    def alter(parts, *_):
        honest = Enrolment.from_bytes(parts["enrolment"])
        return {**parts, "enrolment": replace(honest, row=honest.row[:-1]).to_bytes()}

    assert altered("query.enrol", alter, clustering="auto").play().labels == [0, 0, 0, -1]


def tell_first(played, samples: int) -> None:
    """What client 3 tells the key service before it enrols is what counts."""
    with played.server.identity("client", "client-3") as identity:
        identity.report_samples(played.run, samples)


@pytest.mark.parametrize("samples", [1, 10**9])
def test_a_client_that_tells_too_few_samples_or_too_many_stops_nobody(fleet, samples):
    """The key service opens no sum that is nearly one client's: weights are kept within its rules."""
    played = fleet(rounds=1)
    tell_first(played, samples)
    assert len(played.play().played) == 4


def test_a_client_that_tells_too_many_samples_and_stays_away_is_not_missed(fleet):
    played = fleet(rounds=1)
    tell_first(played, 2**31 - 1)
    played.before = lambda client, kind, message: None if (client, kind) == (3, "train") else message
    assert {record.client for record in played.play().played} == {0, 1, 2}


@pytest.mark.parametrize("kind", ["train.rank", "train"])
def test_sensitivities_without_a_tag_are_left_out(altered, monkeypatch, kind):
    """Whoever sends them so would keep its cluster from an order."""
    purposes = {"train.rank": 0, "train": 1}
    played = altered("nothing", lambda parts, *_: parts, rounds=2, order_refresh=1)
    send = DkmsClient.send_tag

    def but_not_its_ranking(self, data, round_):
        mine = round_.purpose == "sensitivity" and round_.number == purposes[kind]
        if not (mine and Tag.from_bytes(data, round_).client == 3):
            send(self, data, round_)

    monkeypatch.setattr(DkmsClient, "send_tag", but_not_its_ranking)
    outcome = played.play()
    assert len(outcome.played) == 8
    assert not any(record.no_new_order is not None for record in servers_of(RunFolder(played.state).records()))


def test_a_node_without_a_party_file_says_so(fleet, caplog):
    played = fleet(rounds=1)
    context = played.context
    played.context = lambda node: _without(context(node)) if node == 103 else context(node)
    outcome = played.play()
    assert outcome.labels[3] == -1
    assert "sensecrypt-identity: is not in this node's configuration" in caplog.text


def _without(context):
    context.node_config.clear()
    return context
