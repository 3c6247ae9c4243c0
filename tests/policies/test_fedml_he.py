from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.policies.fedml_he import POLICY
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import model_format, protect_map
from sensecrypt.protocol.round import Round
from tests.crypto.conftest import keypair
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


def test_the_clients_maps_are_weighted_by_samples():
    """Client 1 has nine tenths of the samples: the mean map, and so the order, is nearly its own."""
    public, secret = keypair("insecure-test")
    shares = {0: 0.05, 1: 0.9, 2: 0.05}
    round_ = Round("test", 0, 0, "sensitivity", 20, get_profile("insecure-test"), shares)
    maps = {0: np.linspace(2, 0, 20), 1: np.linspace(0, 1, 20), 2: np.linspace(2, 0, 20)}
    server, total = KeyServer(secret), RoundSum(round_, public)
    for client, scores in maps.items():
        protected = protect_map(scores, round_, client=client, key=public, seed=server.tag_seed(round_))
        total.add(protected.upload, sender=client)
        server.take_tag(protected.tag, round_, sender=client)
    released = server.release(total.close().to_bytes(round_), round_)
    mean = model_format(round_).decode(released.values, released.weight)
    assert mean == pytest.approx(sum(shares[client] * maps[client] for client in shares), abs=1e-5)
    assert server.set_order(round_, released).tolist() == list(range(19, -1, -1))
