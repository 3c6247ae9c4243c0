"""Sums of fixed groups: no combination of what is released isolates fewer clients than a sum must have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.errors import Rejected
from sensecrypt.protocol.releaserules import CODE, check_groups, make_groups

WEIGHTS = {client: (client + 1) / 45 for client in range(9)}


def sum_of(*clients: int) -> dict[int, float]:
    return {client: WEIGHTS[client] for client in clients}


EVERYBODY = sum_of(*range(9))


def allowed(*sums: dict[int, float], least: int = 3) -> bool:
    """Whether they are released, one after another."""
    try:
        for number, each in enumerate(sums):
            check_groups(each, sums[:number], least)
    except Rejected as error:
        return error.code != CODE
    return True


def test_the_same_clients_again_and_clients_that_were_never_together():
    assert allowed(EVERYBODY, EVERYBODY, EVERYBODY)
    assert allowed(sum_of(0, 1, 2), sum_of(3, 4, 5), sum_of(0, 1, 2, 3, 4, 5))
    assert allowed(EVERYBODY, sum_of(*range(6)), sum_of(*range(3)), sum_of(3, 4, 5, 6, 7, 8))


@pytest.mark.parametrize("left_out", [{8}, {7, 8}])
def test_whoever_is_left_out_is_left_out_with_enough_others(left_out):
    assert not allowed(EVERYBODY, sum_of(*set(range(9)) - left_out))
    assert not allowed(sum_of(*set(range(9)) - left_out), EVERYBODY)


def test_three_sums_that_isolate_a_client_though_no_two_do():
    first, second, third = sum_of(0, 1, 2, 3, 4, 5), sum_of(0, 1, 2, 6, 7, 8), sum_of(2, 3, 4, 5, 6, 7, 8)
    for one, other in itertools.combinations((first, second, third), 2):
        assert len(one.keys() ^ other.keys()) >= 3
    assert not allowed(first, second, third)


def test_weights_within_a_group_stay_in_proportion():
    scaled = {client: 3 * weight for client, weight in EVERYBODY.items()}
    assert allowed(EVERYBODY, scaled)
    assert not allowed(EVERYBODY, {**EVERYBODY, 0: 2 * WEIGHTS[0]})
    half = {client: 2 * weight if client < 3 else weight for client, weight in EVERYBODY.items()}
    assert not allowed(EVERYBODY, half)  # a group of nine: six of them would stand against three
    assert allowed(sum_of(0, 1, 2), EVERYBODY, half)  # which are told apart already


@given(st.lists(st.sets(st.integers(0, 8), min_size=3), min_size=1, max_size=6), st.integers(2, 3))
def test_no_combination_of_released_sums_isolates_fewer_clients(sets, least):
    released: list[dict[int, float]] = []
    for clients in sets:
        if allowed(*released, sum_of(*clients), least=least):
            released.append(sum_of(*clients))
    rows = np.array([[each.get(client, 0.0) for client in range(9)] for each in released] or [[0.0] * 9])
    rank = np.linalg.matrix_rank(rows)
    for few in range(1, least):
        for alone in itertools.combinations(range(9), few):
            others = np.delete(rows, alone, axis=1)
            assert np.linalg.matrix_rank(others) == rank  # else a combination has these clients and nobody else


@given(st.sets(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 9))
def test_groups_are_everybody_once_and_large_enough(members, least):
    groups = make_groups(members, least)
    assert set().union(*groups) == members
    assert sum(map(len, groups)) == len(members)
    assert all(least <= len(group) < 2 * least for group in groups) or len(members) < least
