from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.policies.fedml_he import POLICY
from tests.policies.situations import situation


@given(st.integers(1, 40).flatmap(lambda size: st.tuples(st.permutations(range(size)), st.integers(1, size))))
def test_with_one_value_a_ciphertext_it_is_the_published_mask(drawn):
    ranking, count = drawn
    client = situation(len(ranking), ranking=np.array(ranking), ratio=count / len(ranking))
    assert np.flatnonzero(POLICY.choose(client).mask.to_array()).tolist() == sorted(ranking[:count])


@pytest.mark.parametrize(
    ("ratio", "chosen"),
    [
        (0.25, [2]),  # of the first two ranked, 4 and 5, block 2 holds both
        (0.5, [0, 2]),  # 4, 5 | 7 | 0: block 0 and block 3 hold one each, the lower number wins
        (0.75, [0, 2, 3]),  # 4, 5 | 7, 6 | 0, 1
        (1.0, [0, 1, 2, 3]),
    ],
)
def test_larger_blocks_are_those_that_hold_the_most_ranked_parameters(ratio, chosen):
    ranking = np.array([4, 5, 7, 0, 6, 1, 2, 3])
    client = situation(8, 2, ranking=ranking, ratio=ratio)
    assert np.flatnonzero(POLICY.choose(client).mask.flags).tolist() == chosen


def test_a_short_last_block_has_little_to_offer():
    ranking = np.array([6, 0, 1, 2, 3, 4, 5])
    client = situation(7, 3, ranking=ranking, ratio=1 / 3)  # of 6, 0, 1 the first block holds two, the last one
    assert POLICY.choose(client).mask.flags.tolist() == [True, False, False]


def test_in_the_prefix_layout_it_is_the_prefix():
    client = situation(10, 3, order=np.arange(10)[::-1], ranking=None, ratio=0.5)
    mask = POLICY.choose(client).mask
    assert mask.flags.tolist() == [True, True, False, False]
    assert np.flatnonzero(mask.to_array()).tolist() == [4, 5, 6, 7, 8, 9]


def test_all_clients_choose_the_same_whatever_their_own_data():
    ranking = np.random.default_rng(0).permutation(1000)
    masks = {POLICY.choose(situation(block=7, ranking=ranking, seed=seed)).mask for seed in range(3)}
    assert len(masks) == 1
