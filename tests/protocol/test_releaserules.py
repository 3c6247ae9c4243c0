"""A sum of one and of next to nothing is that one: what is in a sum decides whether it may be released."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, ReleaseRules

STRICT = ReleaseRules(3, 0.5, LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS)
EVEN = dict.fromkeys(range(10), 0.1)


@pytest.mark.parametrize("contributors", [range(10), range(5), (1, 3, 5, 7, 9)])
def test_enough_of_a_cluster_may_be_opened(contributors):
    STRICT.check(EVEN, contributors)


@pytest.mark.parametrize(
    ("weights", "contributors", "reason"),
    [
        (EVEN, (0, 1), "2 contributor"),
        (EVEN, (0, 8, 9), "30% of the cluster's weight is in the sum, but the quorum is 50%"),
        ({0: 0.3, 1: 0.3, **dict.fromkeys(range(2, 22), 0.02)}, (0, 1, 5), "3 of the cluster's 22 clients are in the"),
        ({0: 0.8, 1: 0.1967, 2: 0.0033}, (0, 1, 2), "one client is 99.6% of the sum without the 1 largest other"),
        ({0: 0.79, 1: 0.004, 2: 0.004, 3: 0.202}, (0, 1, 2), "one client is 99.5% of the sum without"),
        ({0: 0.5, 1: 0.4, 2: 0.1}, (0, 1, 2), "one client is 83.3% of the sum without"),
        ({**dict.fromkeys(range(9), 0.11), 9: 0.01 / 3, 10: 0.02 / 3}, range(11), "33 times the weight of another"),
    ],
)
def test_what_would_show_one_client_may_not(weights, contributors, reason):
    with pytest.raises(Rejected, match=reason) as refusal:
        STRICT.check(weights, contributors)
    assert refusal.value.code == "too-few-contributors"


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=40), st.floats(0.1, 0.9), st.floats(0.2, 1.0))
def test_weights_keep_the_rules_whatever_clients_say_that_they_have(samples, quorum, largest):
    members = dict(enumerate(samples))
    rules = ReleaseRules(2, quorum, max(largest, 1 / len(samples)), LARGEST_RATIO)
    weights = rules.weights(members)
    assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    rules.check(weights, members)
    assert all((weights[a] <= weights[b] + 1e-9) or samples[a] >= samples[b] for a in members for b in members)


@given(st.lists(st.integers(1, 10**12), min_size=3, max_size=40), st.integers(0, 3))
def test_nobody_is_missed(samples, colluders):
    """Whoever stays away, also one that says that it has everything, the others' sum keeps the rules."""
    members = dict(enumerate(samples))
    rules = replace(STRICT, min_contributors=colluders + 2, colluders=colluders)
    weights = rules.weights(members)
    assert all(1 - weights[client] >= STRICT.quorum - 1e-9 for client in members)
    if len(members) >= rules.min_contributors:
        rules.check(weights, members)
    if len(members) > rules.min_contributors and colluders:
        assert all(rules.allow(weights, members.keys() - {client}) for client in members)


@given(st.lists(st.integers(100, 230), min_size=3, max_size=40))
def test_weights_that_keep_the_rules_are_exactly_the_shares_of_the_samples(samples):
    members = dict(enumerate(samples))
    exact = {client: own / sum(samples) for client, own in members.items()}
    if max(exact.values()) <= 0.5:
        assert STRICT.weights(members) == exact
    assert ReleaseRules().weights(members) == exact


def test_a_quorum_is_not_a_matter_of_rounding():
    thirds = dict.fromkeys(range(3), 1 / 3)
    assert ReleaseRules(2, 2 / 3).allow(thirds, (0, 1))
    assert ReleaseRules(2, 0.8).allow(EVEN, range(8))
    assert not ReleaseRules(2, 0.8).allow(EVEN, range(7))


@pytest.mark.parametrize(
    "rules",
    [
        *({"quorum": 1.5}, {"largest_weight": -1}, {"min_contributors": 0}, {"colluders": -1}),
        *({"largest_ratio": 0.5}, {"largest_ratio": float("nan")}, {"largest_weight": 0.4, "colluders": 1}),
    ],
)
def test_impossible_rules(rules):
    with pytest.raises(InvalidInput):
        ReleaseRules(**rules)
