"""An aggregator that sets weights so that one honest client is all that is left of a sum without its colluder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.errors import Refused, Rejected
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, ReleaseRules
from sensecrypt.protocol.round import Round
from tests.keyservice.rounds import Played

VICTIM, HONEST, COLLUDER = 0, 1, 2
EXPLOIT = {VICTIM: 0.8, HONEST: 0.0033, COLLUDER: 0.1967}
BEFORE = 0.004  # the relative error of the exploit when the largest part alone was bounded, by 80 %
RULES = ReleaseRules(3, 0.5, LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS)


def error_of_subtraction(weights, updates, victim, colluders):
    """What aggregator and colluders make of the victim's update: the sum without theirs, scaled as well as can be."""
    left = sum(weights[client] * updates[client] for client in weights if client not in colluders)
    best = left * (left @ updates[victim]) / (left @ left)
    return np.linalg.norm(best - updates[victim]) / np.linalg.norm(updates[victim])


def independent(count, size=20_000):
    """Updates of one length that have nothing to do with each other."""
    rows = np.random.default_rng(3).normal(size=(count, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_the_exploit_reads_the_victim_where_it_is_let_through():
    assert error_of_subtraction(EXPLOIT, independent(3), VICTIM, {COLLUDER}) < 1.5 * BEFORE


def test_the_exploit_is_refused_by_a_real_key_service(strict):
    """Whatever the colluder tells: it is the victim's weight that the aggregator wants."""
    played = Played(strict, samples={VICTIM: 100, HONEST: 100, COLLUDER: 100}, min_contributors=3)
    exploit = Round(played.run, 0, 0, "model", played.size, played.profile, EXPLOIT)
    with pytest.raises(Refused, match=r"one client is 99\.6% of the sum without the 1 largest other") as refusal:
        played.register(exploit)
    assert refusal.value.code == "too-few-contributors"
    milder = Round(played.run, 0, 0, "model", played.size, played.profile, {VICTIM: 0.4, HONEST: 0.2, COLLUDER: 0.4})
    with pytest.raises(Refused, match=r"the samples that members reported give 0\.3333") as refusal:
        played.register(milder)
    assert refusal.value.code == "other-weights"
    assert played.play(played.round()).contributors == (VICTIM, HONEST, COLLUDER)


def test_a_colluder_that_tells_any_number_of_samples_gains_nothing_on_the_victim(strict):
    for told in (1, 1_000_000):
        played = Played(strict, samples={VICTIM: 800, HONEST: 3, COLLUDER: told}, min_contributors=3)
        round_ = played.round()
        assert played.play(round_).contributors == (VICTIM, HONEST, COLLUDER)
        assert error_of_subtraction(round_.weights, independent(3), VICTIM, {COLLUDER}) >= 0.3


@given(st.lists(st.floats(0.001, 1.0), min_size=3, max_size=12), st.data())
def test_no_weighting_that_is_let_through_tells_a_client_to_its_colluder(masses, data):
    weights = {client: mass / sum(masses) for client, mass in enumerate(masses)}
    if not RULES.allow(weights, weights):
        weights = RULES.weights({client: max(1, round(1000 * mass)) for client, mass in enumerate(masses)})
    RULES.check(weights, weights)
    victim = data.draw(st.sampled_from(sorted(weights)))
    colluder = max(weights.keys() - {victim}, key=lambda client: weights[client])
    assert error_of_subtraction(weights, independent(len(weights), 2_000), victim, {colluder}) >= 0.3


SMALL_AVERAGE_OUT = {0: 0.4, 1: 0.3, **dict.fromkeys(range(2, 14), 0.025)}
"""Without client 1, 57 % of what is left is client 0's, beside twelve that are small and average out."""


def test_small_updates_do_not_hide_a_large_one():
    """What the bound on squares is for: parts and ratios alone would let this pass."""
    weights = SMALL_AVERAGE_OUT
    assert error_of_subtraction(weights, independent(14), 0, {1}) < 0.3
    assert max(weights.values()) / min(weights.values()) < RULES.largest_ratio
    with pytest.raises(
        Rejected, match="one client outweighs the others of the sum, which are small: they hide it by only 21%"
    ):
        RULES.check(weights, weights)
