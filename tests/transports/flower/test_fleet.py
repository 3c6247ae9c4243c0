"""The fleet gives the models that one machine gives, whatever happens on the way."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sensecrypt.algo.dp import gaussian_sigma
from sensecrypt.client import update as client_update
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput, Refused, SenseCryptError
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.protocol.protection import protect_model
from sensecrypt.protocol.requests import Enrolment
from sensecrypt.records import ClientRecord, clients_of, servers_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.flower.serverapp import run_fleet
from sensecrypt.transports.flower.settings import read_settings
from sensecrypt.transports.local.run import run_local
from tests.transports.flower.conftest import SMALL, LoopGrid


def local_models(tmp_path, **settings):
    return run_local(make_config({**SMALL, **settings}), RunFolder(tmp_path / "local")).model_sha256


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"policy": "plaintext"},
        {"policy": "full"},
        {"layout": "blocks"},
        {"rounds": 3, "order_refresh": 1},
        {"clustering": "auto", "clients": 6, "partition": "categories:2", "budget": "deadline"},
        {"clustering": "k-means", "clusters": 2, "clients": 6, "partition": "categories:2"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "default",
)
def test_the_models_are_those_of_one_machine(fleet, tmp_path, settings):
    outcome = fleet(**settings).play()
    assert sorted(outcome.model_sha256) == sorted(local_models(tmp_path, **settings))
    assert len(outcome.played) == outcome.config.problem.clients * outcome.config.training.rounds
    assert all(0 < accuracy <= 1 for accuracy in outcome.accuracy)


def test_records_and_accuracies_are_those_of_one_machine(fleet, tmp_path):
    played = fleet()
    outcome, local = played.play(), run_local(make_config(SMALL), RunFolder(tmp_path / "local"))
    for ours, theirs in zip(outcome.records, local.records, strict=True):
        for key in ("round", "client", "cluster", "accuracy", "encrypted_share", "budget", "encrypted_blocks"):
            assert getattr(ours, key) == getattr(theirs, key), key
    assert outcome.summary().keys() == local.summary().keys()
    json.dumps(outcome.summary(), allow_nan=False)


def test_messages_and_requests_of_a_run_are_few(fleet, monkeypatch):
    """One message per client and round: it evaluates the model that it gets, trains, and sends its update."""
    played, asked, inside = fleet(rounds=3), Counter[str](), []
    send, answer, grid = DkmsClient._send, played.app, LoopGrid(played)

    def counted(self, method, address, **more):
        asked[inside[-1] if inside else "coordinator"] += 1
        return send(self, method, address, **more)

    def app(message, context):
        inside.append(message.metadata.message_type)
        try:
            return answer(message, context)
        finally:
            inside.pop()

    played.app = app
    monkeypatch.setattr(DkmsClient, "_send", counted)
    run_fleet(grid, read_settings(played.run_config), played.identity("aggregator", "aggregator"))
    clients = len(played.nodes)
    messages = {"query.prove": 1, "query.enrol": 1, "train.rank": 1, "train": 3, "query.finish": 1}
    assert Counter(kind for _, kind in grid.sent) == {kind: clients * many for kind, many in messages.items()}
    requests = {"query.prove": 1, "query.enrol": 3, "train.rank": 3, "train": 3 + 4 + 4, "query.finish": 2}
    assert asked == {kind: clients * many for kind, many in requests.items()} | {"coordinator": 16}


def test_every_client_keeps_its_final_model(fleet):
    played = fleet()
    played.play()
    for client in range(4):
        assert (played.folder / f"state-client-{client}" / played.run / "model-0.safetensors").exists()


def test_the_aggregator_keeps_no_model_and_no_secret(fleet):
    played = fleet()
    played.play()
    kept = {path.name for path in played.state.iterdir()}
    files = {"run.json", "records.jsonl", "checkpoint.safetensors", "attempt.json", "outcome.json", "lock"}
    assert kept == {*files, "sketch-seed"}  # which is of no use without the rotation


def test_two_server_apps_do_not_play_one_run(fleet):
    played = fleet()

    def before(client, kind, message):
        with pytest.raises(InvalidInput, match="is in use by another process"):
            played.play()
        return message

    played.before = before
    assert played.play().model_sha256


def test_a_node_that_dies_and_comes_back_is_left_out_meanwhile(fleet):
    played = fleet(rounds=4)

    def before(client, kind, message):
        gone = kind == "train" and rounds_done(played) == 1
        (played.dead.add if gone else played.dead.discard)(103)
        return message

    played.before = before
    outcome = played.play()
    left_out = [(record.round, record.client) for record in outcome.records if record.left_out is not None]
    assert left_out == [(1, 3), (2, 3)]  # it came back after round 2 had begun
    assert len(outcome.records) == 16


def test_a_client_that_comes_back_as_another_node_goes_on(fleet):
    played = fleet(rounds=3)

    def before(client, kind, message):
        if kind == "train" and client == 3 and rounds_done(played) == 1:
            played.nodes.pop(103, None)
            played.nodes[200] = 3
            return None
        return message

    played.before = before
    outcome = played.play()
    assert [record.round for record in outcome.records if record.left_out is not None] == [1]
    assert isinstance(outcome.records[-1], ClientRecord)


def test_a_client_that_comes_late_joins_the_cluster_whose_data_are_like_its_own(fleet):
    settings = {"clustering": "auto", "clients": 7, "partition": "categories:2", "rounds": 3}
    played = fleet(**settings)
    late = 106
    played.dead.add(late)

    def before(client, kind, message):
        if kind == "train" and rounds_done(played) == 1:
            played.dead.discard(late)
        return message

    played.before = before
    outcome = played.play()
    whole = fleet(**settings).play()
    assert outcome.labels[6] >= 0
    same = [outcome.labels[6] == outcome.labels[client] for client in range(6)]
    assert same == [whole.labels[6] == whole.labels[client] for client in range(6)]


def test_too_few_clients_is_one_clear_line(fleet):
    played = fleet()
    played.dead |= {101, 102, 103}
    with pytest.raises(SenseCryptError, match=r"1 client\(s\) enrolled within 1 s, but 2 are needed"):
        played.play()
    assert "2 are needed" in json.loads((played.state / "outcome.json").read_text())["error"]


def test_without_a_quorum_the_round_fails_and_can_be_resumed(fleet, tmp_path):
    played = fleet(rounds=2)

    def before(client, kind, message):
        return None if kind == "train" and client != 0 and rounds_done(played) == 1 else message

    played.before, played.deadline = before, 0.2
    with pytest.raises(SenseCryptError, match=r"round 1, cluster 0 failed 3 times: 1 contributor\(s\), but at least 2"):
        played.play()
    played.before = lambda client, kind, message: message
    assert played.play().model_sha256 == local_models(tmp_path)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_server_app_that_is_killed_at_an_opening_goes_on_with_the_same_sum(fleet, tmp_path, monkeypatch, moment):
    from sensecrypt.keyservice.http.client import DkmsClient

    played, released = fleet(rounds=3), DkmsClient.release
    calls = []

    class Killed(BaseException):
        pass

    def open_(self, aggregate, round_):
        calls.append((round_.number, round_.purpose, round_.attempt))
        if len(calls) == 3:  # the order, round 0, round 1
            if moment == "after":
                released(self, aggregate, round_)
            raise Killed
        return released(self, aggregate, round_)

    monkeypatch.setattr(DkmsClient, "release", open_)
    with pytest.raises(Killed):
        played.play()
    assert played.play().model_sha256 == local_models(tmp_path, rounds=3)
    assert calls[2] == calls[3] == (1, "model", 0)
    with played.server.identity("aggregator", "aggregator") as aggregator:
        assert aggregator.run(played.run)["members"] == 4
    lines = [line for line in played.server.audit() if line.get("run") == played.run]
    releases = [(line["round"], line["purpose"]) for line in lines if line["event"] == "decrypted"]
    assert sorted(releases) == [(0, "model"), (0, "sensitivity"), (1, "model"), (2, "model")]


def test_a_sum_that_was_opened_though_the_answer_got_lost_counts(fleet, tmp_path, monkeypatch):
    from sensecrypt.keyservice.http.client import DkmsClient

    played, released = fleet(rounds=2), DkmsClient.release
    lost = []

    def open_(self, aggregate, round_):
        told = released(self, aggregate, round_)
        if round_.purpose == "model" and round_.number == 0 and not lost:
            lost.append(round_)
            raise Refused("storage", "the disk is full", "free some")
        return told

    monkeypatch.setattr(DkmsClient, "release", open_)
    with pytest.raises(Refused, match="the disk is full"):
        played.play()
    kept = played.state / "closed-0.safetensors"
    assert kept.exists()  # nobody said that this sum will never be released
    kept.unlink()  # even so: the key service knows
    outcome = played.play()
    assert outcome.model_sha256 == local_models(tmp_path)
    assert [record.round for record in servers_of(outcome.log) if record.records_lost] == [0]


def test_a_server_app_that_is_killed_while_collecting_starts_a_new_attempt(fleet, tmp_path):
    played = fleet()

    class Killed(BaseException):
        pass

    def before(client, kind, message):
        if kind == "train" and client == 3 and rounds_done(played) == 1:
            raise Killed
        return message

    played.before = before
    with pytest.raises(Killed):
        played.play()
    played.before = lambda client, kind, message: message
    assert played.play().model_sha256 == local_models(tmp_path)
    assert json.loads((played.state / "attempt.json").read_text()) == {"round": 1, "attempt": 1}


def test_a_server_app_that_is_killed_while_ordering_goes_on(fleet, tmp_path, monkeypatch):
    from sensecrypt.coordinator import enrolment

    played = fleet()

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(enrolment, "grown", killed)
        with pytest.raises(Killed):
            played.play()
    assert played.play().model_sha256 == local_models(tmp_path)


def test_devices_that_clients_tell_decide_their_budgets(fleet):
    played = fleet(rounds=1)
    for client, cpus in enumerate((1, 2, 4, 8)):
        played.identity("client", f"client-{client}", f"cpus = {cpus}\nbandwidth = 10\n")
    outcome = played.play()
    budgets = [record.budget for record in outcome.records]
    assert budgets == sorted(budgets)
    assert np.ptp(budgets) > 0
    assert outcome.config.machines.cpus == ((1.0, 2.0, 4.0, 8.0),)


def test_devices_that_clients_tell_keep_the_clock_of_the_others(fleet):
    played = fleet(rounds=1, cpus="8", ghz="2")
    played.identity("client", "client-0", "cpus = 4\n")
    outcome = played.play()
    assert [device.speed for device in outcome.config.devices(0)] == [8.0, 16.0, 16.0, 16.0]


def test_a_client_noises_what_it_sends_for_clustering_itself_and_once(fleet, monkeypatch):
    rows = []
    check = Enrolment.to_bytes

    def watch(enrolment):
        rows.append(enrolment.row)
        return check(enrolment)

    monkeypatch.setattr(Enrolment, "to_bytes", watch)
    noise = {"sensitivity_epsilon": 1.0, "sensitivity_clip": 0.1, "clustering": "auto"}
    played = fleet(rounds=1, sensitivities="clear", **noise)
    for client in range(4):
        played.identity("client", f"client-{client}", "clear_sensitivities = true\n")
    outcome = played.play()
    told = outcome.summary()["sensitivity_noise"]
    assert (told["protects"], told["epsilon"]) == ("vector", 1.0)
    assert 1 < told["local_epsilon"] < 1.2
    assert all(
        record.noise == "vector" for record in outcome.log if record.round < 0 and isinstance(record, ClientRecord)
    )
    first = list(rows)
    assert all(np.std(row) == pytest.approx(gaussian_sigma(1.0) * 0.1, rel=0.1) for row in first)
    played.settings["rounds"] = 2
    played.play()  # everybody enrols again
    assert len(rows) == 8
    assert all(any(np.array_equal(row, known) for known in first) for row in rows[4:])


def test_bandwidths_are_measured_by_the_delay_of_the_first_answer(fleet, monkeypatch):
    """Client 3's enrolment arrives late: it gets the smallest budget, also from a ServerApp that starts anew."""
    pull, first = LoopGrid.pull_messages, []

    def late(grid, numbers):
        if "message-7" in numbers:  # after four proofs, the fourth enrolment
            first.append(time.monotonic())
        held = {"message-7"} if first and time.monotonic() - first[0] < 0.5 else set()
        return pull(grid, [number for number in numbers if number not in held])

    monkeypatch.setattr(LoopGrid, "pull_messages", late)
    played = fleet(rounds=1, bandwidth="measured", cpus="8", bandwidths="10,20,30,40")
    aggregator, settings = played.identity("aggregator", "aggregator"), read_settings(played.run_config)
    run_fleet(LoopGrid(played), replace(settings, enrol_seconds=60.0), aggregator)
    outcome = played.outcome()
    budgets = {record.client: record.budget for record in outcome.records}
    measured = {
        each.client: each.measured_bandwidth for each in clients_of(outcome.log) if each.measured_bandwidth is not None
    }
    assert measured.keys() == budgets.keys()
    assert measured[3] < min(measured[client] for client in range(3))
    assert budgets[3] == pytest.approx(measured[3] / max(measured.values()))
    played.settings["rounds"] = 2
    again = [record for record in played.play().records if record.round == 1]
    assert {record.client: record.budget for record in again} == budgets


def test_a_client_that_wants_more_encrypted_sends_nothing(fleet):
    played = fleet(rounds=1, policy="random", ratio=0.3)
    played.identity("client", "client-2", "least_share = 0.5\n")
    outcome = played.play()
    [left_out] = [record for record in outcome.records if record.left_out is not None]
    assert left_out.client == 2
    assert "30% would be encrypted, but this client requires 50%" in left_out.left_out


def test_without_a_word_a_client_wants_a_tenth_encrypted(fleet):
    played = fleet(rounds=1, policy="random", ratio=0.05)
    with pytest.raises(SenseCryptError, match=r"0 contributor\(s\), but at least 2 are needed"):
        played.play()


@pytest.mark.parametrize(
    "settings", [{"rest": "plain"}, {"policy": "plaintext"}, {"policy": "plaintext", "rest": "plain"}]
)
def test_a_client_pads_whatever_the_run_says(fleet, monkeypatch, settings):
    blinded = watch_protection(monkeypatch)
    played = fleet(rounds=1, **settings)
    played.identity("client", "client-2", 'rest = "plain"\nleast_share = 0\n')
    played.play()
    assert blinded == {0: True, 1: True, 2: False, 3: True}


def test_pads_are_no_encryption_for_a_client_that_asks_for_it(fleet):
    played = fleet(rounds=1, policy="plaintext")
    played.identity("client", "client-2", "least_share = 1\n")
    [left_out] = [record for record in played.play().records if record.left_out is not None]
    assert "0% would be encrypted, but this client requires 100%" in left_out.left_out


def test_a_run_that_pads_is_blinded_by_everybody(fleet, monkeypatch):
    blinded = watch_protection(monkeypatch)
    played = fleet(rounds=1)
    played.identity("client", "client-2", 'rest = "plain"\n')
    played.play()
    assert set(blinded.values()) == {True}


def test_without_pads_a_plaintext_run_gets_nothing_from_a_client_that_wants_encryption(fleet):
    played = fleet(rounds=1, policy="plaintext")
    played.identity("client", "client-2", 'rest = "plain"\n')
    [left_out] = [record for record in played.play().records if record.left_out is not None]
    assert "0% would be encrypted" in left_out.left_out


def test_no_client_sends_sensitivities_in_the_clear_unless_it_says_so(fleet):
    settings = {"rounds": 1, "sensitivities": "clear", "clustering": "auto"}
    with pytest.raises(SenseCryptError, match="0 client"):
        fleet(**settings).play()
    played = fleet(**settings)
    for client in range(4):
        played.identity("client", f"client-{client}", "clear_sensitivities = true\n")
    assert len(played.play().played) == 4


def test_accuracies_are_told_by_those_who_want_to(fleet):
    played = fleet()
    for client in (1, 3):
        played.identity("client", f"client-{client}", "tell_accuracy = false\n")
    outcome = played.play()
    assert [math.isnan(each) for each in outcome.accuracy] == [False, True, False, True]
    told = (played.state / "records.jsonl").read_text()
    assert '"evaluated": 0' in told
    assert '"evaluated": 1' not in told


def test_what_a_client_tells_of_a_round_follows_from_what_its_cluster_shares(fleet):
    outcome = fleet(rounds=1, clustering="none", budget="paper").play()
    same = {(record.budget, record.coverage, record.mi) for record in outcome.records}
    assert len(same) == len({record.budget for record in outcome.records})
    for record in fleet(rounds=1, layout="blocks").play().records:
        assert (record.coverage, record.mi) == (record.encrypted_share, None)


def watch_protection(monkeypatch) -> dict[int, bool]:
    """Fills with who blinded."""
    blinded: dict[int, bool] = {}

    def watched(*arguments, **more):
        blinded[more["client"]] = more["blinded"]
        return protect_model(*arguments, **more)

    monkeypatch.setattr(client_update, "protect_model", watched)
    return blinded


def test_training_of_ones_own(fleet):
    from sensecrypt.client.problem import configured_share
    from sensecrypt.transports.flower import client_app

    calls = []

    def fit(model, data, number):
        calls.append((len(data[0]), len(data[1]), number))

    played = fleet(rounds=1)
    played.app = client_app(configured_share, fit=fit)
    outcome = played.play()
    assert len(calls) == 8  # each trains once more to rank its parameters: of `fit` alone nothing else is known
    assert len(outcome.model_sha256) == 1


def rounds_done(fleet) -> int:
    """Of the run so far."""
    rounds = [record.round for record in RunFolder(fleet.state).records() if isinstance(record, ClientRecord)]
    return max(rounds, default=-1) + 1
