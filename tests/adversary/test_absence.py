"""C1: whoever is missing tells something. A hostile member pushes the model to where others' values would not fit.

The fleet's clients but one and the key service are the real ones. Before, a client whose values did not fit sent
nothing, and members were handed the list of who contributed.
"""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client import scoring
from sensecrypt.client.problem import configured_problem
from sensecrypt.models import get_vector, set_vector
from sensecrypt.protocol.requests import FAILURE, facts_from_bytes
from sensecrypt.protocol.round import RoundAddress, address_of
from sensecrypt.protocol.updates import model_of
from sensecrypt.records import to_fields
from tests.adversary.audited import released
from tests.adversary.hostile import sends
from tests.adversary.test_conditions import ONE_CLASS, Wire
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

HOSTILE, EDGE = 5, 127.999
SETTINGS = {**ONE_CLASS, "rounds": 3, "policy": "plaintext"}


def biases(played) -> slice:
    size = get_vector(configured_problem(played.config).build()).size
    return slice(size - 10, size)


def test_a_push_to_the_edge_of_the_slots_never_gets_into_a_sum(fleet, monkeypatch):
    played = fleet(**SETTINGS)
    at = biases(played)

    def edge(task, update):
        pushed = np.zeros_like(update)
        pushed[at] = EDGE
        return pushed

    sends(monkeypatch, HOSTILE, edge)
    wire = Wire(played)
    played.play()
    assert not any(HOSTILE in contributors for contributors in released(played))
    assert {client for client, kind, parts in wire.received if kind == "train" and FAILURE in parts} == set()


def test_nobody_is_missing_whatever_the_hostile_member_gets_through(fleet, monkeypatch):
    """The largest push that passes, at each class in turn: all upload, messages are alike, nobody is told who did."""
    played = fleet(**SETTINGS)
    problem, at = configured_problem(played.config), biases(played)
    bound = clip_bound(played.config.training.clip, get_vector(problem.build()))

    def push(task, update):
        pushed = np.zeros_like(update)
        pushed[at.start + task.round.number] = bound
        return pushed

    sends(monkeypatch, HOSTILE, push)
    wire = Wire(played)
    outcome = played.play()
    uploads = [(client, parts) for client, kind, parts in wire.received if kind == "train"]
    assert len(uploads) == 3 * 6
    assert not any(FAILURE in parts for _, parts in uploads)
    assert len({len(parts["upload"]) for _, parts in uploads}) == 1
    assert len(outcome.played) == 18


def test_at_the_edge_every_client_uploads_and_one_that_fails_is_not_told_apart(fleet, monkeypatch, caplog):
    """Should a start at the edge come about all the same, and training fail for whoever holds class 3."""
    played = fleet(**{**SETTINGS, "rounds": 1})
    problem, honest = configured_problem(played.config), scoring.train_on

    def train(model, data, recipe, **settings):
        vector = get_vector(model)
        vector[-10:] = EDGE
        set_vector(model, vector)
        trained = honest(model, data, recipe, **settings)
        return np.full_like(trained, np.nan) if int(data.parts[1][0]) == int(problem.clients[2][1][0]) else trained

    monkeypatch.setattr(scoring, "train_on", train)
    wire = Wire(played)
    played.play()
    uploads = {client: parts for client, kind, parts in wire.received if kind == "train"}
    assert set(uploads) == set(range(6))
    assert not any(FAILURE in parts for parts in uploads.values())
    assert len({len(parts["upload"]) for parts in uploads.values()}) == 1
    assert len({frozenset(parts) for parts in uploads.values()}) == 1
    told = [facts_from_bytes(parts["facts"], "train") for parts in uploads.values()]
    assert len({frozenset(to_fields(facts)) for facts in told}) == 1
    assert min(facts.train_seconds for facts in told) > 0  # a 0 would tell who failed
    assert "a zero update is sent" in caplog.text  # on the client's own machine


@pytest.mark.parametrize("policy", ["plaintext", "sensecrypt", "full"])
def test_whoever_fails_at_once_tells_the_same_facts(fleet, monkeypatch, policy):
    """Training that raises for one client: what the aggregator gets of it has the same parts, facts and lengths."""
    played = fleet(**{**SETTINGS, "rounds": 1, "policy": policy})
    problem, honest = configured_problem(played.config), scoring.train_on

    def train(model, data, recipe, **settings):
        if int(data.parts[1][0]) == int(problem.clients[2][1][0]):
            raise RuntimeError("of this client's data alone")
        return honest(model, data, recipe, **settings)

    monkeypatch.setattr(scoring, "train_on", train)
    wire = Wire(played)
    outcome = played.play()
    uploads = {client: parts for client, kind, parts in wire.received if kind == "train"}
    assert set(uploads) == {record.client for record in outcome.played} == set(range(6))
    told = {client: facts_from_bytes(parts["facts"], "train") for client, parts in uploads.items()}
    assert len({frozenset(to_fields(facts)) for facts in told.values()}) == 1
    zeros = {client: {name for name, value in to_fields(facts).items() if value == 0} for client, facts in told.items()}
    assert zeros[2] == zeros[1]
    data = b"".join(part for parts in uploads.values() for part in parts.values())
    assert b"of this client" not in data


def test_an_honest_client_whose_training_moved_much_is_clipped_and_stays_in_the_sum(fleet, monkeypatch):
    """Its update would be far outside its slots and the bound; without clipping it would be missing, or refused."""
    played = fleet(**{**SETTINGS, "rounds": 1})
    problem, honest, moved_much = configured_problem(played.config), scoring.train_on, 300.0

    def train(model, data, recipe, **settings):
        trained = honest(model, data, recipe, **settings)
        return trained + moved_much if int(data.parts[1][0]) == int(problem.clients[2][1][0]) else trained

    monkeypatch.setattr(scoring, "train_on", train)
    played.play()
    assert released(played) == [list(range(6))]
    with played.server.identity("client", "client-0") as identity:
        moved = identity.moved(
            RoundAddress(played.run, 0, 0, "model", 0),
            identity.task(RoundAddress(played.run, 0, 0, "model", 0)).round.size,
        )
    bound = clip_bound(played.config.training.clip, get_vector(problem.build()))
    part = bound / 6 / np.sqrt(moved.size)  # of the clipped update, which is the same in every parameter
    assert np.median(moved) > part / 2
    assert np.linalg.norm(moved) <= bound


def test_what_members_fetch_does_not_name_contributors(fleet):
    played = fleet(**{**SETTINGS, "rounds": 1})
    played.play()
    model = played.folder / "state-client-0"
    assert model.exists()
    with played.server.identity("client", "client-0") as identity:
        round_ = identity.task(RoundAddress(played.run, 0, 0, "model", 0)).round
        moved = identity.moved(address_of(round_), round_.size)
    initial = get_vector(configured_problem(played.config).build())
    assert isinstance(moved, np.ndarray)
    assert moved.shape == initial.shape
    assert not np.array_equal(model_of(initial, moved, round_), initial)


def test_a_client_that_cannot_rank_ranks_all_parameters_alike(fleet, monkeypatch, caplog):
    """Before the first round, too, nobody is missing for reasons that depend on its data."""
    played = fleet(**{**SETTINGS, "policy": "sensecrypt", "rounds": 1})
    honest = scoring._scores

    def fails(context, client, vector):
        if client == 2:
            raise FloatingPointError("a gradient that depends on the data")
        return honest(context, client, vector)

    monkeypatch.setattr(scoring, "_scores", fails)
    wire = Wire(played)
    played.play()
    ranked = {client: parts for client, kind, parts in wire.received if kind == "train.rank"}
    assert set(ranked) == set(range(6))
    assert not any(FAILURE in parts for parts in ranked.values())
    assert len({len(parts["sensitivity"]) for parts in ranked.values()}) == 1
    assert "get the same rank" in caplog.text  # on the client's own machine
