"""C2 by a run's settings: a bound so large that it bounds nothing, or a server rule that takes longer steps.

Clients clipped to whatever bound the run set, and started wherever its server rule led. So a submitter with one member
had the exploit back: with `clip = 1000` one member of eight replaced the model in a round. Server rules move the model
further than a mean of clipped updates does. Rounds until the first image above 20 dB, with the code of `imprint`,
digits, seeds 0 to 2, within 40 rounds (`-`: none):

    rule, server learning rate     longest step    the member clips    the mean is moved by the whole bound
    FedAvg, 1                      1 bound         -, 21, -            9, 5, 5
    FedAvgM, 1, momentum 0.9       10              7, 6, 7             5, 3, 3
    FedAdam, 0.01                  10              11, 10, 28          3, 22, 8
    FedAdam, 0.1                   100             3, 3, 3             4, 4, 2
    FedAdam, 1                     1000            2, 1, 1             2, 2, 2
"""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.client.problem import configured_problem
from sensecrypt.errors import SenseCryptError
from sensecrypt.models import get_vector
from sensecrypt.protocol.requests import FAILURE
from tests.adversary.imprint import imprinted, rounds_of_attack
from tests.adversary.test_conditions import Wire, silent
from tests.adversary.test_imprint import CLIENTS, HOSTILE, SETTINGS, bound_of, moved_in, problem_of, replace_model
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

HUGE = {**SETTINGS, "rounds": 1, "clip": 1000.0}


def test_a_bound_that_the_run_sets_bounds_nothing_where_clients_allow_it(fleet, monkeypatch):
    """The figure before: after one round the model is the planted one but for 0.03 of the way."""
    played = silent(fleet(**HUGE))
    for client in range(CLIENTS):
        with (played.folder / f"client-{client}.toml").open("a") as file:
            file.write("largest_clip = 1000\n")
    problem = configured_problem(played.config)
    replace_model(monkeypatch, problem, CLIENTS)
    played.play()
    way = imprinted(problem, problem.clients[HOSTILE][0]).astype(np.float64) - get_vector(problem.build())
    assert np.linalg.norm(way - moved_in(played, 0)) < 0.05 * np.linalg.norm(way)


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        ({"clip": 1000.0}, "condition largest_clip: the run asks for 1000, this client allows auto"),
        (
            {"server_learning_rate": 8.0},
            "condition largest_step: the run asks for fedavg with steps of up to 8 bounds, this client allows 1",
        ),
        (
            {"server": "fedavgm"},
            "condition largest_step: the run asks for fedavgm with steps of up to 10 bounds, this client allows 1",
        ),
        (
            {"server": "fedadam", "server_learning_rate": 0.01},
            "condition largest_step: the run asks for fedadam with steps of up to 10 bounds, this client allows 1",
        ),
    ],
    ids=["clip", "learning-rate", "fedavgm", "fedadam"],
)
def test_without_a_word_such_a_run_gets_nothing(fleet, asked, condition):
    played = silent(fleet(**{**SETTINGS, "rounds": 1, **asked}))
    wire = Wire(played)
    with pytest.raises(SenseCryptError, match="last refusal: condition largest"):
        played.play()
    assert {client for client, _, _ in wire.received} == set(range(CLIENTS))
    assert {parts[FAILURE].decode() for _, _, parts in wire.received} == {condition}


@pytest.mark.parametrize("changed", [{"clip": 1000.0}, {"server_learning_rate": 1e6}], ids=["clip", "server"])
def test_nor_does_one_that_changes_its_bound_after_enrolment(fleet, changed):
    played = silent(fleet(**{**SETTINGS, "rounds": 1}))
    wire = Wire(played)

    def before(client, kind, message):
        if kind == "train":
            played.settings.update(changed)
        return message

    played.before = before
    with pytest.raises(SenseCryptError):
        played.play()
    assert not wire.uploads()


def first_image(rule: ServerRule, rounds: int) -> int:
    """Rounds until a member that clips has its first image above 20 dB, where the server moves the model by a rule."""
    attack, bound = rounds_of_attack(problem_of(), bound_of() / CLIENTS, rule=rule), bound_of()
    for number, found in zip(range(rounds + 1), attack, strict=False):
        if (found > 20).sum():
            return number
    assert clip_bound("auto", get_vector(problem_of().build())) == bound
    return rounds + 1


def test_server_rules_bring_a_bounded_member_there_sooner():
    """Why `largest_step` is 1 unless a client says otherwise."""
    assert first_image(ServerRule(), 12) > 12
    assert first_image(ServerRule("fedavgm"), 12) <= 8
    assert first_image(ServerRule("fedadam", 0.1), 12) <= 5
