from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt import InvalidInput
from sensecrypt.policies.maskcrypt import POLICY, UNION, agree, consensus, expose, propose, score, unite
from tests.policies.situations import situation


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def consensus_by_loops(proposals: list[list[int]]) -> list[int]:
    listed: list[int] = []
    for choices in zip_longest(*proposals):
        for block in choices:
            if block is not None and block not in listed:
                listed.append(block)
    return listed


@st.composite
def exchanges(draw):
    blocks = draw(st.integers(1, 12))
    ranking = st.lists(st.integers(0, blocks - 1), max_size=blocks, unique=True)
    return blocks, draw(st.lists(ranking, max_size=5)), draw(st.integers(0, blocks))


@given(exchanges())
def test_the_consensus_is_that_of_the_published_loops(exchange):
    blocks, proposals, limit = exchange
    listed = consensus_by_loops(proposals)
    arrays = [np.array(proposal, dtype=np.int64) for proposal in proposals]
    assert consensus(arrays, blocks).tolist() == listed
    assert np.flatnonzero(agree(arrays, blocks, limit)).tolist() == sorted(listed[:limit])
    assert np.flatnonzero(unite(arrays, blocks, limit)).tolist() == sorted(listed)


def test_first_choices_go_before_second_ones():
    proposals = [np.array([4, 0, 2]), np.array([3, 4, 1]), np.array([4, 3, 5])]
    assert consensus(proposals, 6).tolist() == [4, 3, 0, 2, 1, 5]
    assert agree(proposals, 6, 3).tolist() == [True, False, False, True, True, False]
    assert unite(proposals, 6, 3).all()


@pytest.mark.parametrize("block", [-1, 6])
def test_a_block_that_the_model_does_not_have_is_refused(block):
    with pytest.raises(InvalidInput, match="outside 0 … 5"):
        agree([np.array([0, block])], 6, 2)


def test_many_long_proposals():
    rng = np.random.default_rng(0)
    proposals = [rng.permutation(200_000)[:20_000] for _ in range(20)]
    flags = agree(proposals, 200_000, 20_000)
    assert np.count_nonzero(flags) == 20_000
    assert flags[[proposal[0] for proposal in proposals]].all()
    assert np.array_equal(np.flatnonzero(unite(proposals, 200_000, 20_000)), np.unique(np.concatenate(proposals)))


def test_the_score_is_signed():
    exposed, weights, gradient = f32(1, 1, 0, 0, 3), f32(0, 0, 2, -1, 3), f32(0.5, -4, -1, 3, 9)
    assert score(exposed, weights, gradient).tolist() == [0.5, -4.0, 2.0, 3.0, 0.0]
    client = situation(5, weights=weights, gradient=gradient, exposed=exposed, ratio=0.8)
    assert propose(client).tolist() == [3, 2, 0, 4]  # by |score|, parameter 1 would be the first
    assert propose(replace(client, ratio=0.4)).tolist() == [3, 2]


def test_blocks_rank_by_the_sum_of_their_scores_equal_ones_by_number():
    exposed, weights = f32(2, -1, 0, 0, 1, 0, 0), f32(0, 0, 0, 0, 0, 0, 0)
    client = situation(7, 2, weights=weights, gradient=np.ones(7, np.float32), exposed=exposed, ratio=1.0)
    assert propose(client).tolist() == [0, 2, 1, 3]  # 1, 1, 0, 0


def test_blocks_are_cut_along_the_order():
    exposed, weights = f32(1, 0, 0, 5), f32(0, 0, 0, 0)
    order = np.array([1, 2, 3, 0])
    client = situation(
        4, 2, weights=weights, gradient=np.ones(4, np.float32), exposed=exposed, order=order, ranking=None, ratio=0.5
    )
    assert propose(client).tolist() == [1]


def test_the_score_keeps_what_single_precision_would_lose():
    factor = 1 + 2**-12
    assert score(f32(factor), f32(0), f32(factor)).tolist() == [factor**2]
    # The products are 1 and 2⁻³⁰: their sum in single precision is 1.
    client = situation(
        4, 2, weights=f32(0, 0, 0, 0), exposed=f32(1, 0, 1, 2**-15), gradient=f32(1, 0, 1, 2**-15), ratio=0.5
    )
    assert propose(client).tolist() == [1]


def test_a_diverged_model_is_refused():
    with pytest.raises(InvalidInput, match="divergence"):
        propose(situation(2, weights=f32(np.inf, 0), exposed=f32(np.inf, 0), gradient=f32(1, 1)))


def test_all_encrypt_what_was_agreed_whatever_they_proposed():
    agreed = np.array([False, True, True])
    for policy in (POLICY, UNION):
        assert policy.choose(situation(6, 2, agreed=agreed)).mask.flags.tolist() == agreed.tolist()


def test_the_union_of_two_clients_is_larger_and_the_budget_is_not():
    clients = [situation(seed=0), situation(seed=1)]
    proposals = [propose(client) for client in clients]
    limit = clients[0].ratio_blocks
    assert np.count_nonzero(agree(proposals, 1000, limit)) == limit
    united = np.flatnonzero(unite(proposals, 1000, limit))
    assert limit < united.size <= 2 * limit
    assert united.tolist() == sorted({*proposals[0].tolist(), *proposals[1].tolist()})


def test_the_adversary_learns_what_is_plain_and_nothing_else():
    initial, encrypted = f32(1, 2, 3, 4), np.array([True, False, True, False])
    after_one = expose(initial, encrypted, f32(10, 20, 30, 40))
    assert after_one.tolist() == [1, 20, 3, 40]
    assert after_one.dtype == np.float32
    assert expose(after_one, ~encrypted, f32(11, 21, 31, 41)).tolist() == [11, 20, 31, 40]
    assert initial.tolist() == [1, 2, 3, 4]


def test_what_stays_hidden_scores_more_the_further_the_model_moves():
    """The point of w_exp: with a fixed gradient, a hidden parameter that moved keeps its place in the mask."""
    gradient = np.full(4, -1.0, np.float32)
    exposed, model = f32(0, 0, 0, 0), f32(4, 1, 3, 2)
    first = propose(situation(4, weights=model, gradient=gradient, exposed=exposed, ratio=0.5))
    assert first.tolist() == [0, 2]
    exposed = expose(exposed, np.isin(np.arange(4), first), model)
    again = propose(situation(4, weights=model + np.float32(0.5), gradient=gradient, exposed=exposed, ratio=0.5))
    assert again.tolist() == [0, 2]
