from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt import Clusters, InvalidInput, encryption_budgets
from sensecrypt.algo.budget import deadline_budgets


def test_the_papers_cpus_at_equal_bandwidth():
    assert encryption_budgets([50] * 5, [32, 16, 12, 10, 8]).tolist() == [1.0, 0.5, 0.375, 0.3125, 0.25]


def test_the_scarcer_resource_decides_and_the_best_client_gets_one():
    # (0.5, 1), (1, 0.5), (0.25, 1): capabilities 0.5, 0.5, 0.25, scaled by their maximum.
    assert encryption_budgets([50, 100, 25], [8, 4, 8]).tolist() == [1.0, 1.0, 0.5]


def test_each_cluster_is_scaled_by_its_own_best():
    budgets = encryption_budgets([10, 10, 1, 1], [4, 2, 8, 2], clusters=[0, 0, 1, 1])
    assert budgets.tolist() == [1.0, 0.5, 1.0, 0.25]
    clusters = Clusters(np.array([0, 0, 1, 1]), np.array([0, 2]), None, "given")
    assert encryption_budgets([10, 10, 1, 1], [4, 2, 8, 2], clusters=clusters).tolist() == budgets.tolist()


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.integers(0, 2)), min_size=1, max_size=20),
    st.floats(1e-3, 1e3),
)
def test_laws(clients, unit):
    r, v, labels = (np.array(column) for column in zip(*clients, strict=True))
    budgets = encryption_budgets(r, v, clusters=labels)
    assert ((budgets > 0) & (budgets <= 1)).all()
    assert all(budgets[labels == label].max() == 1 for label in labels)
    assert np.allclose(encryption_budgets(r * unit, v, clusters=labels), budgets)  # units do not matter


def test_one_client_gets_everything():
    assert encryption_budgets([3.0], [7.0]).tolist() == [1.0]


@pytest.mark.parametrize(
    ("bandwidth", "cpu_speed", "clusters", "argument"),
    [
        ([0, 1], [1, 1], None, "bandwidth"),
        ([1, 1], [1, -1], None, "cpu_speed"),
        ([1, np.inf], [1, 1], None, "bandwidth"),
        ([1, 1], [1], None, "cpu_speed"),
        ([1, 1], [1, 1], [0], "clusters"),
        ([], [], None, "bandwidth"),
    ],
)
def test_bad_input_is_named(bandwidth, cpu_speed, clusters, argument):
    with pytest.raises(InvalidInput) as error:
        encryption_budgets(bandwidth, cpu_speed, clusters=clusters)
    assert error.value.argument == argument


def test_a_deadline_worked_by_hand():
    # The slowest takes 20 s, so the deadline is 22 s. Left for blocks: 22-10-2 = 10 s, 22-20-1 = 1 s, 22-5-0 = 17 s.
    budgets = deadline_budgets([10, 20, 5], [2, 1, 0], [1, 0.25, 2], blocks=10)
    assert budgets.tolist() == [1.0, 0.4, 0.8]


def test_the_longer_of_slack_and_grace_counts():
    assert deadline_budgets([2], [0], [0.25], blocks=10).tolist() == [0.4]  # 1 s; a tenth of 2 s would be nothing
    assert deadline_budgets([2], [0], [0.25], blocks=10, slack=1).tolist() == [0.8]
    assert deadline_budgets([2], [0], [0.25], blocks=10, slack=1, grace=2.5).tolist() == [1.0]


def test_who_has_no_time_left_gets_one_block():
    assert deadline_budgets([100, 1], [50, 0], [1, 1], blocks=8).tolist() == [1 / 8, 1.0]


def test_more_time_than_floats_can_count_is_time_for_all_blocks():
    assert deadline_budgets([1e308], [0], [1e-300], blocks=7, slack=1e300).tolist() == [1.0]


@given(st.data(), st.integers(1, 10**6))
def test_a_budget_is_a_whole_number_of_blocks(data, blocks):
    """As `select` counts them: 1/49 times 49 is less than 1 in floats, and would allow no block at all."""
    count = data.draw(st.integers(1, blocks))
    [budget] = deadline_budgets([0], [0], [1], blocks=blocks, grace=count)
    assert math.floor(budget * blocks) == count
    assert budget == pytest.approx(count / blocks)
    assert budget <= 1


# Whole seconds, so that sums and the comparisons of the laws are exact.
CLIENTS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 50), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=12
)
QUARTERS = st.integers(0, 8).map(lambda quarters: quarters / 4)


@given(CLIENTS, st.integers(1, 60), QUARTERS, st.integers(0, 100))
def test_all_that_fits_before_the_deadline_and_no_more(clients, blocks, slack, grace):
    plain, scoring, block, labels = (np.array(column) for column in zip(*clients, strict=True))
    budgets = deadline_budgets(plain, scoring, block, blocks=blocks, slack=slack, grace=grace, clusters=labels)
    for p, s, b, label, budget in zip(plain, scoring, block, labels, budgets, strict=True):
        slowest = plain[labels == label].max()
        deadline = slowest + max(slack * slowest, grace)
        count = math.floor(budget * blocks)
        assert 1 <= count <= blocks
        assert count == 1 or p + s + count * b <= deadline
        assert count == blocks or p + s + (count + 1) * b > deadline


@given(CLIENTS, st.integers(1, 60), QUARTERS, st.integers(0, 100), QUARTERS)
def test_more_time_never_gives_less(clients, blocks, slack, grace, more):
    *columns, labels = (np.array(column) for column in zip(*clients, strict=True))

    def budgets(slack: float, grace: float):
        return deadline_budgets(*columns, blocks=blocks, slack=slack, grace=grace, clusters=labels)

    assert (budgets(slack + more, grace) >= budgets(slack, grace)).all()
    assert (budgets(slack, grace + more) >= budgets(slack, grace)).all()


@given(CLIENTS, st.integers(1, 60))
def test_a_slower_client_never_gets_more(clients, blocks):
    plain, scoring, block, _ = (np.array(column) for column in zip(*clients, strict=True))
    budgets = deadline_budgets(plain, scoring, block, blocks=blocks)
    for i in range(plain.size):
        slower = (plain >= plain[i]) & (scoring >= scoring[i]) & (block >= block[i])
        assert (budgets[slower] <= budgets[i]).all()


@given(CLIENTS, st.integers(1, 60))
def test_each_cluster_has_its_own_deadline(clients, blocks):
    plain, scoring, block, labels = (np.array(column) for column in zip(*clients, strict=True))
    together = deadline_budgets(plain, scoring, block, blocks=blocks, clusters=labels)
    for label in np.unique(labels):
        members = labels == label
        alone = deadline_budgets(plain[members], scoring[members], block[members], blocks=blocks)
        assert alone.tolist() == together[members].tolist()


def test_a_clustering_is_as_good_as_its_labels():
    clusters = Clusters(np.array([0, 1]), np.array([0, 1]), None, "given")
    budgets = deadline_budgets([100, 1], [0, 0], [1, 1], blocks=20, clusters=clusters)
    assert budgets.tolist() == deadline_budgets([100, 1], [0, 0], [1, 1], blocks=20, clusters=[0, 1]).tolist()
    assert budgets.tolist() == [0.5, 0.05]  # by itself, the fast one has only the grace


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"plain": [1, -1]}, "plain"),
        ({"plain": [1, np.nan]}, "plain"),
        ({"plain": []}, "plain"),
        ({"scoring": [-0.5, 1]}, "scoring"),
        ({"scoring": [1]}, "scoring"),
        ({"scoring": [1, np.inf]}, "scoring"),
        ({"block": [1, 0]}, "block"),
        ({"block": [1, -1]}, "block"),
        ({"block": [1, 1, 1]}, "block"),
        ({"block": [1, np.nan]}, "block"),
        ({"blocks": 0}, "blocks"),
        ({"blocks": 2.5}, "blocks"),
        ({"slack": -0.1}, "slack"),
        ({"slack": np.inf}, "slack"),
        ({"grace": -1.0}, "grace"),
        ({"grace": np.nan}, "grace"),
        ({"clusters": [0]}, "clusters"),
    ],
    ids=str,
)
def test_bad_times_are_named(change, argument):
    arguments = {"plain": [1, 1], "scoring": [0, 0], "block": [1, 1], "blocks": 4, **change}
    with pytest.raises(InvalidInput) as error:
        deadline_budgets(**arguments)
    assert error.value.argument == argument
