"""C2: one member replaces the model by one that keeps the others' samples apart, and reads the next sum.

Before: one client of eight replaced the model in a round, and read 23 of 56 images with more than 20 dB.
"""

from __future__ import annotations

import itertools

import numpy as np
from sensecrypt.engines import work

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.models import get_vector
from sensecrypt.protocol.places import Place
from tests.adversary.audited import opened
from tests.adversary.imprint import imprinted, rounds_of_attack
from tests.engines.flower.conftest import dkms as dkms
from tests.engines.flower.conftest import fleet as fleet
from tests.engines.flower.conftest import pki as pki

CLIENTS, HOSTILE = 8, 7
SETTINGS = {"clients": CLIENTS, "rounds": 2, "min_contributors": 3, "policy": "plaintext"}


def problem_of(**settings):
    return configured_problem(make_config({"dataset": "digits", "clients": CLIENTS, "partition": "iid", **settings}))


def read_after(reach: float, rounds: int) -> np.ndarray:
    """How many images the attacker has with more than 20 dB, after so many rounds of its own."""
    attack = rounds_of_attack(problem_of(), reach)
    return np.array([(found > 20).sum() for found in itertools.islice(attack, rounds + 1)])


def test_without_a_bound_the_next_sum_tells_images():
    """The figure before, and that this attacker can attack."""
    assert read_after(np.inf, 2)[-1] >= 10


def test_within_the_bound_the_exploits_rounds_tell_no_image():
    """For ten times as many rounds, if the member clips; for as many, if it moves the mean by the whole bound."""
    bound = clip_bound("auto", get_vector(problem_of().build()))
    assert read_after(bound / CLIENTS, 20).max() == 0
    assert read_after(bound, 2).max() == 0


def replace_model(monkeypatch, problem, share: float) -> None:
    """Client 7 asks for the planted model, or for a part of the way."""
    honest, target = work._to_send, imprinted(problem, problem.clients[HOSTILE][0])

    def to_send(task, trained):
        update, clipped = honest(task, trained)
        if task.client == HOSTILE:
            update = share * (target.astype(np.float64) - task.vector)
        return update, clipped

    monkeypatch.setattr(work, "_to_send", to_send)


def moved_in(played, number: int) -> np.ndarray:
    with played.server.party("client", "client-0") as party:
        return party.moved(party.round(Place(played.run, number, 0, "model", 0)))


def test_a_replaced_model_never_gets_into_a_sum(fleet, monkeypatch, caplog):
    played = fleet(**SETTINGS)
    replace_model(monkeypatch, configured_problem(played.config), CLIENTS)
    played.play()
    assert "left out from now on" in caplog.text or "the sum matches without clients" in caplog.text
    assert not any(HOSTILE in contributors for contributors in opened(played))


def test_what_passes_moves_the_model_by_no_more_than_the_bound(fleet, monkeypatch):
    played = fleet(**SETTINGS)
    problem = configured_problem(played.config)
    replace_model(monkeypatch, problem, 1.0)
    bound = clip_bound(played.config.clip, get_vector(problem.build()))
    played.play()
    first, second = moved_in(played, 0), moved_in(played, 1)
    assert 0 < np.linalg.norm(first) <= bound
    assert np.linalg.norm(second - first) <= bound * (1 + 1e-6)
