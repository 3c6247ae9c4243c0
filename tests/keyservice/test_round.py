"""Whole rounds through a real service: the model is the same to the byte, and whatever is repeated changes nothing."""

from __future__ import annotations

import contextlib
import sqlite3

import numpy as np
import pytest

from sensecrypt.errors import Refused
from sensecrypt.protocol.round import address_of
from tests.keyservice.rounds import CLIENTS, Played, expected_model


def test_a_round_gives_every_member_the_model_to_the_byte(server):
    played = Played(server)
    round_ = played.round()
    acknowledgement = played.play(round_)
    assert acknowledgement.contributors == tuple(range(CLIENTS))
    assert acknowledgement.weight == pytest.approx(1.0)
    for client in range(CLIENTS):
        assert played.model(round_, client).tobytes() == expected_model(played).tobytes()


def test_summed_sensitivities_make_an_order_that_only_members_get(server):
    played = Played(server, first=((90, 100),))
    played.play(played.round(0, purpose="sensitivity"))
    round_ = played.register(played.round(0))
    with played.client(0) as client:
        ranking = client.task(address_of(round_)).ranking
    assert sorted(ranking.order[:10].tolist()) == list(range(90, 100))
    gains = np.abs(played.models)
    mean = np.array([5, 6, 7, 8]) @ (gains / gains.max(axis=1, keepdims=True))
    assert ranking.order[10:].tolist() == [k for k in np.argsort(-mean, kind="stable").tolist() if k < 90]
    played.release(played.upload(round_), round_)
    assert played.model(round_).tobytes() == expected_model(played).tobytes()
    for refused_to in (played.aggregator(), played.admin()):
        with refused_to as identity, pytest.raises(Refused) as refusal:
            identity.task(address_of(round_))
        assert refusal.value.code == "wrong-role"


def test_a_rounds_order_stays_what_its_members_were_told(server):
    played = Played(server)
    played.play(played.round(0, purpose="sensitivity"))
    round_ = played.register(played.round(0))
    aggregate = played.upload(round_)
    played.models = played.models[:, ::-1].copy()
    played.play(played.round(1, purpose="sensitivity"))  # a new order, before the old round is released
    played.models = played.models[:, ::-1].copy()
    played.release(aggregate, round_)
    assert played.model(round_).tobytes() == expected_model(played).tobytes()


def test_whatever_is_sent_again_changes_nothing(server):
    played = Played(server)
    round_ = played.register(played.round())
    played.register(round_)
    with played.admin() as admin:
        again = admin.register_run(
            played.run, size=100, profile="insecure-test", members=played.members, min_contributors=2
        )
    assert again == played.told
    protected = played.protect(round_, 0)
    with played.client(0) as client:
        client.send_tag(protected.tag, round_)
        client.send_tag(protected.tag, round_)
    aggregate = played.upload(round_, protected_before={0: protected})
    assert played.release(aggregate, round_) == played.release(aggregate, round_)
    with played.client(0) as client:
        client.send_tag(protected.tag, round_)  # whose blinding is forgotten by now
    counted = {event: len(played.events(event)) for event in ("run-registered", "round-registered", "decrypted")}
    assert counted == {"run-registered": 1, "round-registered": 1, "decrypted": 1}
    assert [line["client"] for line in played.events("tag-taken")] == [0, 1, 2, 3]


def test_who_is_missing_is_left_out(server):
    played = Played(server)
    round_ = played.register(played.round())
    aggregate = played.upload(round_, [1, 3])
    with played.aggregator() as aggregator:
        assert aggregator.tags(round_) == [1, 3]
    assert played.release(aggregate, round_).contributors == (1, 3)
    mean = (6 * played.models[1] + 8 * played.models[3]) / 14
    assert np.abs(played.model(round_, 0) - mean).max() < 1e-6


def test_clients_of_a_run_share_their_seeds_and_nobody_else_has_them(server):
    played, other = Played(server), Played(server)
    round_ = played.register(played.round())
    seeds = set()
    for number in range(CLIENTS):
        with played.client(number) as client:
            seeds.add(client.task(address_of(round_)).seed)
            assert client.run(played.run)["client"] == number
    assert len(seeds) == 1
    with played.client(0) as client:
        assert client.task(address_of(other.register(other.round()))).seed not in seeds
    for stranger in (played.aggregator(), played.admin(), server.identity("client", "stranger")):
        with stranger as identity:
            for ask in (
                lambda identity=identity: identity.rotate_sketch(played.run, np.ones(4)),
                lambda identity=identity: identity.task(address_of(round_)).seed,
            ):
                with pytest.raises(Refused) as refusal:
                    ask()
                assert refusal.value.code in ("wrong-role", "not-a-member")


def test_the_aggregator_learns_who_contributed_and_nothing_of_the_sum(server):
    played = Played(server)
    round_ = played.register(played.round())
    aggregate = played.upload(round_)
    with played.server.browser("aggregator", "aggregator") as browser:
        address = f"/v1/runs/{played.run}/rounds/0/clusters/0/model/0"
        answer = browser.put(f"{address}/aggregate", content=aggregate.to_bytes(round_))
        assert (answer.status_code, len(answer.content) < 400) == (200, True)
        for what in ("model", "task"):
            assert browser.get(f"{address}/{what}").json()["code"] == "wrong-role"


def test_metrics_are_for_prometheus_and_health_for_all(server):
    with server.browser("monitor", "prometheus") as browser:
        text = browser.get("/metrics").text
        assert browser.get("/v1/runs/x").json()["code"] == "wrong-role"
    assert "# TYPE sensecrypt_dkms_decryptions_total counter" in text
    assert f"sensecrypt_dkms_audit_lines {server.audit()[-1]['number'] - 1}" in text or "audit_lines" in text
    with server.browser() as browser:
        assert browser.get("/healthz").json() == {"status": "ok"}


def test_sketches_are_turned_alike_for_all_clients_of_a_run_and_each_once(server):
    played, other = Played(server), Played(server)
    rng = np.random.default_rng(4)
    rows = rng.normal(0, 0.1, (CLIENTS, 256))
    turned = []
    for number in range(CLIENTS):
        with played.client(number) as client:
            turned.append(client.rotate_sketch(played.run, rows[number]))
            again = client.rotate_sketch(played.run, rng.normal(0, 0.1, 256))  # the first stays
            assert np.array_equal(again, turned[-1])
            assert np.linalg.norm(turned[-1]) == pytest.approx(np.linalg.norm(rows[number]))
            assert abs(turned[-1] @ rows[number]) < 0.5 * np.linalg.norm(rows[number]) ** 2
    assert np.allclose(np.array(turned) @ np.array(turned).T, rows @ rows.T)
    with played.client(0) as client:
        assert not np.allclose(client.rotate_sketch(other.run, rows[0]), turned[0])
    assert [line["client"] for line in played.events("sketch-rotated")] == list(range(CLIENTS))


@pytest.mark.parametrize("row", [[np.nan], [np.inf, 0], [], [1.0] * 257, [1e9]], ids=lambda row: str(row)[:12])
def test_impossible_sketches(server, row):
    played, row = Played(server), np.array(row)
    with played.client(0) as client, pytest.raises(Refused) as refusal:
        client.rotate_sketch(played.run, row)
    assert refusal.value.code == "rejected"
    with played.client(0) as client:
        assert client.rotate_sketch(played.run, np.ones(4)).size == 4


def test_pads_leave_the_disk_when_their_round_is_opened_or_left_behind(server):
    played = Played(server)

    def stored_blindings() -> list[bytes]:
        with contextlib.closing(sqlite3.connect(server.folder.database)) as connection:
            sql = "SELECT blinded FROM tags WHERE run = ? AND blinded IS NOT NULL"
            return [row[0] for row in connection.execute(sql, (played.run,))]

    def on_disk() -> bytes:
        return b"".join(path.read_bytes() for path in server.folder.path.glob("state.db*"))

    round_ = played.register(played.round(0))
    aggregate, blindings = played.upload(round_), stored_blindings()
    assert len(blindings) == CLIENTS
    assert all(blinding in on_disk() for blinding in blindings)
    played.release(aggregate, round_)
    assert stored_blindings() == []
    assert not any(blinding in on_disk() for blinding in blindings)
    played.upload(played.register(played.round(1)))
    blindings = stored_blindings()
    assert len(blindings) == CLIENTS
    played.register(played.round(1, attempt=1))
    assert stored_blindings() == []
    assert not any(blinding in on_disk() for blinding in blindings)


def test_a_member_of_the_next_round_fetches_the_model_that_it_starts_from_and_no_earlier_one(server):
    """Client sampling: phone-3 takes part in round 2 alone."""
    played = Played(server)
    rounds = [played.round(number, members=[0, 1, 2]) for number in (0, 1)]
    for round_ in rounds:
        played.play(round_)
    with played.client(3) as client:
        for round_ in rounds:
            with pytest.raises(Refused, match="no member"):
                client.moved(address_of(round_), round_.size)
    played.register(played.round(2, members=[1, 2, 3]))
    with played.client(3) as client:
        assert client.moved(address_of(rounds[1]), played.size).tobytes() == played.model(rounds[1]).tobytes()
        with pytest.raises(Refused, match="no member"):
            client.moved(address_of(rounds[0]), played.size)
        with pytest.raises(Refused, match="no member"):
            client.task(address_of(rounds[1]))
