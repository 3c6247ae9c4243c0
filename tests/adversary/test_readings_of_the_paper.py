"""Hostile parties against what preset paper and its readings add."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt import InfeasibleSelection, InvalidInput, encryption_budgets, mutual_information, select
from sensecrypt.algo.dp import dp_noise
from sensecrypt.config import make_config
from sensecrypt.transports.flower.settings import refuse_local_only

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(0, 0.05, 2000)
GAINS = np.abs(WEIGHTS * RNG.lognormal(-8, 1.5, 2000))


def lied_to() -> float:
    """The budget of an honest client whose cluster has a member that claims a thousandfold device."""
    return float(encryption_budgets(bandwidth=[50, 45, 50_000], cpu_speed=[24, 16, 24_000])[1])


def test_a_member_that_claims_a_huge_device_lowers_the_budgets_of_all_others():
    honest = float(encryption_budgets(bandwidth=[50, 45], cpu_speed=[24, 16])[1])
    assert lied_to() < honest / 100  # max-abs scaling is relative: this is the paper's rule, and what it costs


def test_which_does_not_lower_what_the_default_preset_encrypts_below_the_floor():
    assert make_config({}).selection.on_infeasible == "security"
    found = select(GAINS, lied_to(), B=1.3, C=0.7, objective="protect", on_infeasible="security")
    assert found.coverage >= found.security_floor
    assert found.overrun > 0


def test_and_is_reported_as_infeasible_under_preset_paper():
    assert make_config({"preset": "paper"}).selection.on_infeasible == "budget"
    found = select(GAINS, lied_to(), B=1.3, C=0.7, normalise="budget", on_infeasible="budget")
    assert not found.feasible
    with pytest.raises(InfeasibleSelection):
        select(GAINS, lied_to(), B=1.3, C=0.7, normalise="feasible")


def test_weights_that_are_made_up_cannot_talk_select_out_of_the_leakage_bound():
    """A start model from a hostile aggregator: one weight far away puts all others into the bin of zero."""
    hostile = np.append(WEIGHTS, 1e9)
    gains = np.append(GAINS, 0.0)
    honest = select(GAINS, 1.0, B=1.0, C=0.9, max_mi=1.0, weights=WEIGHTS)
    fooled = select(gains, 1.0, B=1.0, C=0.9, max_mi=1.0, weights=hostile)
    # The mutual information is then met with nothing encrypted. What stays is the floor: it does not look at weights.
    assert mutual_information(hostile, np.zeros(2001, dtype=bool)) < 0.1
    assert fooled.coverage >= fooled.security_floor
    assert honest.mi <= 1.0


def test_noise_that_is_asked_for_again_and_again_averages_out():
    """Why a fleet's client draws its noise once and sends the same vector again (tests/transports/flower)."""
    vector = np.full(200, 0.05)
    many = np.mean([dp_noise(vector, clip=1.0, epsilon=1.0) for _ in range(400)], axis=0)
    once = dp_noise(vector, clip=1.0, epsilon=1.0)
    assert np.linalg.norm(many - vector) < 0.1 * np.linalg.norm(once - vector)


@pytest.mark.parametrize("settings", [{}, {"key_mode": "dkms"}])
def test_a_fleet_does_not_take_the_papers_shared_key_or_weights_at_the_server(settings):
    with pytest.raises(InvalidInput, match="is for one machine"):
        refuse_local_only(make_config({"preset": "paper", **settings}))
    refuse_local_only(make_config({"preset": "paper", "key_mode": "dkms", "weighting": "client"}))
