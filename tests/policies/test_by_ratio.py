"""The three strategies of Appendix H: high, low, random."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.policies import high_sensitivity, low_sensitivity, random
from tests.policies.situations import situation

HIGH, LOW, RANDOM = high_sensitivity.POLICY, low_sensitivity.POLICY, random.POLICY


@pytest.mark.parametrize("block", [1, 20])
@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.8])
def test_high_covers_more_than_random_and_random_more_than_low(block, ratio):
    client = situation(2000, block, ratio=ratio)
    assert client.sensitivity is not None
    high, some, low = (policy.choose(client).mask.coverage(client.sensitivity) for policy in (HIGH, RANDOM, LOW))
    assert high > some > low
    assert high > ratio > low


@pytest.mark.parametrize(
    ("block", "order", "ratio", "high", "low"),
    [
        (1, None, 0.5, [1, 3, 4], [0, 2, 5]),
        (2, None, 1 / 3, [1], [0]),  # sums 5, 8, 5.5
        (2, [3, 4, 5, 0, 1, 2], 1 / 3, [0], [1]),  # sums 11, 1.5, 6
    ],
)
def test_exact_choices_by_hand(block, order, ratio, high, low):
    gains = np.array([1.0, 4.0, 2.0, 6.0, 5.0, 0.5])
    order = None if order is None else np.array(order)
    client = situation(6, block, sensitivity=gains, order=order, ratio=ratio)
    assert np.flatnonzero(HIGH.choose(client).mask.flags).tolist() == high
    assert np.flatnonzero(LOW.choose(client).mask.flags).tolist() == low


def test_ties_go_by_the_lower_number():
    client = situation(9, sensitivity=np.array([1.0, 2, 1, 2, 1, 2, 1, 2, 1]), ratio=1 / 3)
    assert np.flatnonzero(HIGH.choose(client).mask.flags).tolist() == [1, 3, 5]
    assert np.flatnonzero(LOW.choose(client).mask.flags).tolist() == [0, 2, 4]


def test_in_the_prefix_layout_high_takes_the_beginning_and_low_the_end():
    client = situation(1000, 10, ordered=True, ratio=0.3)
    assert HIGH.choose(client).mask.flags.tolist() == [True] * 30 + [False] * 70
    assert LOW.choose(client).mask.flags.tolist() == [False] * 70 + [True] * 30


def test_random_reaches_every_block_equally_often():
    rng = np.random.default_rng(0)
    hits = sum(RANDOM.choose(situation(10, rng=rng, ratio=0.3)).mask.flags.astype(int) for _ in range(2000))
    assert np.abs(hits - 600).max() < 100  # five standard deviations


def test_random_draws_anew_each_round():
    client = situation()
    assert RANDOM.choose(client).mask != RANDOM.choose(client).mask
