from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt import Clusters, InvalidInput, encryption_budgets


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
