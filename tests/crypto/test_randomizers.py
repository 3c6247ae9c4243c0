"""Attempts to make a pool give the same randomizer twice."""

from __future__ import annotations

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sensecrypt import InvalidInput, InvalidKey, RandomizerPool, generate_keypair


@pytest.fixture
def pool(insecure):
    public, _ = insecure
    filled = RandomizerPool(public)
    filled.fill(50)
    return filled


def test_encryption_takes_from_the_pool_and_makes_the_rest(insecure, pool):
    public, secret = insecure
    values = np.arange(40 * public.slots)
    for left in (10, 0, 0):
        assert np.array_equal(secret.decrypt(public.encrypt(values, pool=pool), values.size), values)
        assert len(pool) == left
    pool.fill(5)
    assert np.array_equal(secret.decrypt(secret.encrypt(values, pool=pool), values.size), values)
    assert len(pool) == 0


def test_nothing_is_taken_twice(insecure, pool):
    public, _ = insecure
    taken = pool.take(30, public) + pool.take(30, public)
    assert len(taken) == len(set(taken)) == 50


def test_threads_share_without_reuse(insecure):
    public, _ = insecure
    pool = RandomizerPool(public)
    pool.fill(400)
    with ThreadPoolExecutor(8) as threads:
        batches = list(threads.map(lambda _: pool.take(7, public), range(100)))
    taken = [randomizer for batch in batches for randomizer in batch]
    assert len(taken) == len(set(taken)) == 400


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_pool_cannot_be_duplicated(pool, duplicate):
    with pytest.raises(TypeError, match="only once"):
        duplicate(pool)


def test_a_forked_process_finds_the_pool_empty(pool):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, bytes([len(pool)]))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"\x00"
    os.close(reader)
    os.close(writer)
    assert len(pool) == 50


def test_two_pools_of_one_key_hold_different_randomizers(insecure):
    public, secret = insecure
    pools = [RandomizerPool(public), RandomizerPool(public, secret)]
    for each in pools:
        each.fill(100, workers=2)
    taken = [randomizer for each in pools for randomizer in each.take(100, public)]
    assert len(set(taken)) == 200


def test_a_pool_of_another_key_is_refused(pool):
    stranger, _ = generate_keypair("insecure-test")
    with pytest.raises(InvalidKey, match="another key"):
        stranger.encrypt([1], pool=pool)
    assert len(pool) == 50


def test_a_pool_filled_by_another_key_is_refused(insecure):
    public, _ = insecure
    _, stranger = generate_keypair("insecure-test")
    with pytest.raises(InvalidKey, match="another key"):
        RandomizerPool(public, stranger)


def test_an_impossible_number_is_refused(pool):
    for count in (0, -1, 10**18):
        with pytest.raises(InvalidInput):
            pool.fill(count)


def test_it_does_not_show_what_it_holds(pool):
    assert repr(pool).startswith("RandomizerPool(50 for PublicKey(insecure-test")
