"""Start models that no clipped updates can have made: the client that gets one trains nothing, and harms nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sensecrypt.client import update as client_update
from sensecrypt.client.client import NO_PART
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.protocol.answers import read_moved, serialize_moved
from sensecrypt.protocol.requests import FAILURE
from tests.adversary.test_conditions import Wire
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

VICTIM = 2
SETTINGS = {"clients": 4, "rounds": 2, "min_contributors": 3, "policy": "plaintext"}


def with_one(moved: np.ndarray, value: float) -> np.ndarray:
    moved[7] = value
    return moved


STARTS = {
    "NaN": (lambda moved: with_one(moved, np.nan), "values that are not finite"),
    "infinity": (lambda moved: with_one(moved, np.inf), "values that are not finite"),
    "far": (lambda moved: with_one(moved, 40.0), "clipped updates allow"),
    "everything shifted": (lambda moved: moved + 0.5, "clipped updates allow"),
    "shape": (lambda moved: moved[:-1], "shape"),
}


@pytest.mark.parametrize("start", STARTS)
def test_nothing_is_trained_from_it_and_the_others_go_on(fleet, monkeypatch, caplog, start):
    """One client is handed another model than the rest; the reason stays in its own log."""
    played, (change, reason) = fleet(**SETTINGS), STARTS[start]
    honest, trained, train = DkmsClient.moved, [], client_update.train_locally

    def moved(self, place, size):
        right = honest(self, place, size)
        own = self.run(place.run)["client"] == VICTIM
        return change(right.copy()) if own else right

    def fit(context, client, vector, number):
        trained.append((client, number))
        return train(context, client, vector, number)

    monkeypatch.setattr(DkmsClient, "moved", moved)
    monkeypatch.setattr(client_update, "train_locally", fit)
    wire = Wire(played)
    outcome = played.play()
    told = {parts[FAILURE].decode() for client, kind, parts in wire.received if client == VICTIM and FAILURE in parts}
    assert told == {NO_PART}
    assert reason in caplog.text
    assert (VICTIM, 0) in trained
    assert (VICTIM, 1) not in trained
    assert sorted(record.client for record in outcome.played if record.round == 1) == [0, 1, 3]


def test_a_start_out_of_reach_is_not_the_measure_of_the_next(fleet, monkeypatch):
    """After a refused start the client goes on from the last that it took, and so takes the right one again."""
    played = fleet(**{**SETTINGS, "rounds": 3})
    honest = DkmsClient.moved

    def moved(self, place, size):
        right = honest(self, place, size)
        wrong = self.run(place.run)["client"] == VICTIM and place.number == 0
        return right + 0.5 if wrong else right

    monkeypatch.setattr(DkmsClient, "moved", moved)
    outcome = played.play()
    assert [record.round for record in outcome.played if record.client == VICTIM] == [0, 2]


@pytest.mark.parametrize(
    ("change", "problem"), [(STARTS["NaN"][0], "not finite"), (STARTS["shape"][0], "values, but the")]
)
def test_a_message_with_such_a_model_is_rejected_when_it_is_read(change, problem):
    with pytest.raises(Rejected, match=problem):
        read_moved(serialize_moved(change(np.zeros(10, dtype=np.float32))), 10)


def test_a_round_with_another_bound_gets_nothing(fleet, monkeypatch):
    """An aggregator that registers a larger bound, or none, with a key service that lets it pass."""
    played = fleet(**{**SETTINGS, "rounds": 1})
    honest = DkmsClient.task
    clips = iter([None, 1e6, None, 1e6] * 8)

    def task(self, place):
        given = honest(self, place)
        return replace(given, round=replace(given.round, clip=next(clips)))

    monkeypatch.setattr(DkmsClient, "task", task)
    wire = Wire(played)
    with pytest.raises(SenseCryptError):
        played.play()
    told = [parts for _, kind, parts in wire.received if kind == "train"]
    assert told
    assert all(parts[FAILURE].decode().startswith("the round bounds updates by") for parts in told)
