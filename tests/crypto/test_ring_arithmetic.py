"""Products, bytes and random polynomials, against Python's integers and against their distributions."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sensecrypt.crypto.ring import arithmetic, sampling
from sensecrypt.crypto.ring.arithmetic import (
    MODULUS,
    MODULUS_BITS,
    product,
    small_transform,
    split_transform,
    transform,
)
from sensecrypt.crypto.ring.packing import pack, packed_bytes, unpack
from sensecrypt.crypto.ring.public import FIRST_BITS, VALUE_BITS
from sensecrypt.crypto.ring.sampling import below_powers_of_2, errors, expand, random_bytes, ternary
from tests.crypto import plainring

N = 2048
LEAST = 2**50 - 2**24  # both halves at their lower ends: −2^25 and −2^24
MOST = LEAST - 1  # and at their upper ends: 2^25 − 1 and 2^24 − 1
ALL = range(N)


def exact(small, other):
    return plainring.to_places(plainring.times(plainring.from_places(small), plainring.from_places(other)))


def ours(small, other):
    words = product(small_transform(np.array(small, np.int8)), split_transform(np.array(other, np.int64)))
    return (words % MODULUS).tolist()


SMALL = {
    "ones": [1] * N,
    "minus ones": [-1] * N,
    "alternating": [(-1) ** i for i in ALL],
    "halves of opposite sign": plainring.to_places([1] * (N // 2) + [-1] * (N // 2)),
    "one": [1] + [0] * (N - 1),
    "zero": [0] * N,
    "random": np.random.default_rng(1).integers(-1, 2, N).tolist(),
}
OTHER = {
    "most negative halves": [LEAST] * N,
    "most positive halves": [MOST] * N,
    "largest": [MODULUS - 1] * N,
    "ends in turn": [LEAST if i % 2 else MOST for i in ALL],
    "ends by halves": plainring.to_places([LEAST if i < N // 2 else MOST for i in ALL]),
    "wave": plainring.to_places([int(2**50 + np.round(np.cos(np.pi * i / N) * MOST)) % MODULUS for i in ALL]),
    "random": np.random.default_rng(2).integers(0, MODULUS, N).tolist(),
    "random ends": [LEAST if bit else MOST for bit in np.random.default_rng(3).integers(0, 2, N)],
}


@pytest.mark.parametrize("other", OTHER, ids=str)
@pytest.mark.parametrize("small", SMALL, ids=str)
def test_products_are_exact_at_the_extremes(small, other):
    assert ours(SMALL[small], OTHER[other]) == exact(SMALL[small], OTHER[other])


def test_products_are_exact_where_a_coefficient_is_as_large_as_can_be():
    """Signs that make one coefficient of the product the sum of 2,048 halves of 2^25."""
    rng = np.random.default_rng(4)
    for place in (0, 1, N // 2, N - 1):
        u = [int(sign) for sign in rng.choice([-1, 1], N)]
        # X^i · X^j is the coefficient at `place`, negative if i + j has passed n.
        signs = [u[place - i] if i <= place else -u[place - i + N] for i in ALL]
        a = [LEAST if sign < 0 else MOST for sign in signs]
        assert ours(plainring.to_places(u), plainring.to_places(a)) == exact(
            plainring.to_places(u), plainring.to_places(a)
        )


@given(st.integers(0, 2**32), st.sampled_from([16, 64, 2048]))
def test_products_are_exact(seed, n):
    rng = np.random.default_rng(seed)
    small, other = rng.integers(-1, 2, n).tolist(), rng.integers(0, MODULUS, n).tolist()
    assert ours(small, other) == exact(small, other)


def test_what_is_rounded_is_much_closer_to_a_whole_number_than_the_stated_bound():
    farthest = 0.0
    for small in SMALL.values():
        for other in OTHER.values():
            halves = split_transform(np.array(other, np.int64))
            pairs = np.fft.ifft(small_transform(np.array(small, np.int8)) * halves)
            numbers = (pairs * arithmetic._twists(N).conj()).view(np.float64)
            farthest = max(farthest, float(np.abs(numbers - np.rint(numbers)).max()))
    assert 0 < farthest < 2**-10  # the bound says 2^−3


def test_the_halves_are_those_of_the_bound():
    words = np.array(OTHER["random"] + OTHER["ends in turn"] + [0, MODULUS - 1], np.int64)
    shapes = np.concatenate([words, np.zeros(-words.size % 16, np.int64)]).reshape(-1, 16)
    low, high = np.moveaxis(_halves(shapes), -2, 0)
    assert (low.min(), low.max()) == (-(2**24), 2**24 - 1)
    assert (high.min(), high.max()) == (-(2**25), 2**25 - 1)
    assert np.array_equal((low + 2**25 * high).astype(object) % MODULUS, shapes)


def _halves(words):
    """What `split_transform` transforms: its inverse transform."""
    pairs = np.fft.ifft(split_transform(words)) * arithmetic._twists(words.shape[-1]).conj()
    return np.rint(pairs.view(np.float64))


def test_a_dimension_beyond_the_bound_is_refused():
    with pytest.raises(ValueError, match="2048"):
        transform(np.zeros(4096))


@given(st.integers(0, 2**32), st.sampled_from([8, 16, 2048]), st.integers(1, 3), st.integers(32, 63))
def test_bytes_are_those_of_plain_integers_and_come_back(seed, n, rows, bits):
    words = np.random.default_rng(seed).integers(-(2**63), 2**63, (rows, n))
    packed = np.zeros((rows, packed_bytes(n, bits)), np.uint8)
    pack(words, packed, bits)
    assert np.array_equal(unpack(packed, bits), words & 2**bits - 1)
    assert [row.tobytes() for row in packed] == [
        plainring.to_bytes(plainring.from_places([int(word) % 2**bits for word in row]), bits) for row in words
    ]


@pytest.mark.parametrize("bits", [MODULUS_BITS, FIRST_BITS, VALUE_BITS])
def test_all_bytes_are_a_polynomial(bits):
    data = np.frombuffer(os.urandom(3 * packed_bytes(N, bits)), np.uint8).reshape(3, -1)
    again = np.zeros_like(data)
    words = unpack(data, bits)
    pack(words, again, bits)
    assert np.array_equal(again, data)
    assert words.min() >= 0
    assert words.max() < 2**bits


def test_ternary_polynomials_are_uniform():
    counts = np.bincount(ternary((600, N)).ravel() + 1, minlength=3)
    assert len(counts) == 3
    assert stats.chisquare(counts).pvalue > 1e-6


def test_a_byte_becomes_its_rest_and_255_is_drawn_anew(monkeypatch):
    queue = [np.arange(256, dtype=np.uint8), np.array([255], np.uint8), np.array([4], np.uint8)]
    monkeypatch.setattr(sampling, "random_bytes", lambda count: queue.pop(0))
    assert ternary((2, 128)).ravel().tolist() == [byte % 3 - 1 for byte in [*range(255), 4]]
    assert not queue


def test_errors_are_centred_binomial():
    drawn = errors((600, N)).ravel()
    counts = np.bincount(drawn + 21, minlength=43)
    assert len(counts) == 43
    expected = stats.binom.pmf(np.arange(43), 42, 0.5) * drawn.size
    common = expected > 10
    rest = [counts[~common].sum()], [expected[~common].sum()]
    pvalue = stats.chisquare(np.append(counts[common], rest[0]), np.append(expected[common], rest[1])).pvalue
    assert pvalue > 1e-6


@pytest.mark.parametrize(("byte", "error"), [(0, -21), (255, 21)])
def test_the_most_extreme_errors(monkeypatch, byte, error):
    monkeypatch.setattr(sampling, "random_bytes", lambda count: np.full(count, byte, np.uint8))
    assert (errors((2, 16)) == error).all()


def test_numbers_that_round_are_uniform_below_their_power_of_2():
    drawn = below_powers_of_2([1, 7, 8], (300, N))
    for numbers, exponent in zip(drawn, (1, 7, 8), strict=True):
        counts = np.bincount(numbers.ravel(), minlength=2**exponent)
        assert len(counts) == 2**exponent
        assert stats.chisquare(counts).pvalue > 1e-6


def test_random_bytes_are_keyed_afresh_by_the_operating_system(monkeypatch):
    asked, urandom = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or urandom(count))
    first, second = random_bytes(64), random_bytes(64)
    assert asked == [32, 32]
    assert not np.array_equal(first, second)
    monkeypatch.setattr(os, "urandom", bytes)
    # AES-256 of the key 0 and the counter 0, 1: FIPS 197's cipher, as other implementations have it.
    assert random_bytes(16).tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_the_public_polynomial_is_a_hash_of_the_seed():
    seed = bytes(range(32))
    assert plainring.from_places(expand(seed, N)) == plainring.public_a(seed, N)
    assert not np.array_equal(expand(hashlib.sha256(seed).digest(), N), expand(seed, N))
