"""C2: one member replaces the model by one that keeps the others' samples apart, and reads the next sum.

Before: one client of eight replaced the model in a round, and read 23 of 56 images with more than 20 dB.

15 dB is no absolute mark on digits of 8 x 8 pixels. A constant image and the mean of the attacker's samples reach it
for 0 of 56 images; the means of its classes, for 22 (at most 19.8 dB); the sum of one honest step from the initial
model, without any attack, for 11 (at most 19.1 dB). So a bounded attacker is held to what the sum tells without it.
It is a bound on the number. Read from its own rows alone, an attack that moves the mean by the whole bound does gain in
two rounds: with 2 rows from 0 to 3 images above 15 dB (at most 16.8), with 16 rows from 5 to 6.

With the bound, in rounds of attack until the first image above 20 dB (found with 64 values per row, 32 rows):

    rows of the first layer that are replaced      32    16     8     4 and fewer
    the member clips: mean moved by bound / 8      81    35    42     none in 110
    the mean is moved by the whole bound            9     6     6     none in 30
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.models import get_vector
from sensecrypt.protocol.round import RoundAddress
from tests.adversary.audited import released
from tests.adversary.hostile import sends
from tests.adversary.imprint import attacked_images, decibels, imprinted, rounds_of_attack, without_attack
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

CLIENTS, HOSTILE = 8, 7
EXPLOIT = 2  # its number of rounds
SETTINGS = {"clients": CLIENTS, "rounds": 2, "min_contributors": 3, "policy": "plaintext"}


def problem_of(**settings):
    return configured_problem(make_config({"dataset": "digits", "clients": CLIENTS, "partition": "iid", **settings}))


def read_after(reach: float, rounds: int, *, above: float = 20.0, bins: int | None = None) -> np.ndarray:
    """How many images the attacker has with so many dB, before its first round and after each of its rounds."""
    attack = rounds_of_attack(problem_of(), reach, bins=bins)
    return np.array([(found > above).sum() for found in itertools.islice(attack, rounds + 1)])


def bound_of() -> float:
    return clip_bound("auto", get_vector(problem_of().build()))


def test_without_a_bound_the_next_sum_tells_images():
    """The figure before, and that this attacker can attack."""
    assert read_after(np.inf, EXPLOIT)[-1] >= 10
    without, *_, after = read_after(np.inf, EXPLOIT, above=15.0)
    assert after > 2 * without


def test_what_15_decibels_are_worth_without_an_attack():
    problem = problem_of()
    images, own = attacked_images(problem), problem.clients[-1][0].flatten(1).numpy()
    constant = np.repeat(np.linspace(0, 1, 101)[:, None], images[0].numel(), axis=1)
    assert (decibels(constant, images) > 15).sum() == 0
    assert (decibels(own.mean(axis=0, keepdims=True), images) > 15).sum() == 0
    assert (without_attack(problem, images) > 15).sum() == 22
    assert read_after(0.0, 0, above=15.0).tolist() == [11]


@pytest.mark.parametrize("bins", [None, 16, 8, 4, 2])
@pytest.mark.parametrize("share", [1 / CLIENTS, 1.0], ids=["clips", "moves the mean by the whole bound"])
def test_within_the_bound_the_exploits_rounds_tell_no_more_than_no_attack(share, bins):
    """At 15 dB at most as many images as all rows tell without an attack, which may be others; at 20 dB none."""
    found = list(itertools.islice(rounds_of_attack(problem_of(), share * bound_of(), bins=bins), EXPLOIT + 1))
    assert max((each > 15).sum() for each in found) <= read_after(0.0, 0, above=15.0)[0]
    assert max((each > 20).sum() for each in found) == 0


@pytest.mark.parametrize(("share", "bins", "rounds"), [(1 / CLIENTS, 16, 30), (1.0, None, 8), (1.0, 16, 5)])
def test_a_bounded_attacker_needs_many_rounds(share, bins, rounds):
    """And succeeds after them: the bound slows it down, and does not stop it."""
    found = read_after(share * bound_of(), rounds + 8, bins=bins)
    assert found[: rounds + 1].max() == 0
    assert found.max() > 0


def replace_model(monkeypatch, problem, share: float) -> None:
    """Client 7 asks for the planted model, or for a part of the way."""
    target = imprinted(problem, problem.clients[HOSTILE][0])
    sends(monkeypatch, HOSTILE, lambda task, _: share * (target.astype(np.float64) - task.vector))


def moved_in(played, number: int) -> np.ndarray:
    with played.server.identity("client", "client-0") as identity:
        return identity.moved(
            RoundAddress(played.run, number, 0, "model", 0),
            identity.task(RoundAddress(played.run, number, 0, "model", 0)).round.size,
        )


def test_a_replaced_model_never_gets_into_a_sum(fleet, monkeypatch, caplog):
    played = fleet(**SETTINGS)
    replace_model(monkeypatch, configured_problem(played.config), CLIENTS)
    played.play()
    assert "is excluded" in caplog.text or "the sum matches without clients" in caplog.text
    assert not any(HOSTILE in contributors for contributors in released(played))


def test_what_passes_moves_the_model_by_no_more_than_the_bound(fleet, monkeypatch):
    played = fleet(**SETTINGS)
    problem = configured_problem(played.config)
    replace_model(monkeypatch, problem, 1.0)
    bound = clip_bound(played.config.training.clip, get_vector(problem.build()))
    played.play()
    first, second = moved_in(played, 0), moved_in(played, 1)
    assert 0 < np.linalg.norm(first) <= bound
    assert np.linalg.norm(second - first) <= bound * (1 + 1e-6)
