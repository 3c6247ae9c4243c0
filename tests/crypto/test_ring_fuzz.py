"""Mutated ciphertexts: no crash, no error but ours, and what each kind of mutation may do.

$SENSECRYPT_MUTATIONS says how many; a million take some minutes. Additive ciphertexts are malleable: a change by a
multiple of Δ changes values, and only a MAC tag on the values notices. Everything else is refused or harmless.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import numpy as np
import pytest

from sensecrypt import InvalidCiphertext, generate_keypair
from sensecrypt.crypto.ring.public import HEADER_BYTES
from sensecrypt.protocol.tags import mac_tag
from tests.crypto.conftest import keypair

MUTATIONS = int(os.environ.get("SENSECRYPT_MUTATIONS", "3000"))
BITS_BELOW_DELTA = 19


def flip_bit(row, rng, _):
    bit = rng.integers(8 * HEADER_BYTES, 8 * row.size)
    row[bit // 8] ^= 1 << (bit % 8)
    return row


def flip_bits(row, rng, _):
    places = rng.integers(HEADER_BYTES, row.size, rng.integers(2, 200))
    row[places] ^= rng.integers(1, 256, places.size, dtype=np.uint8)
    return row


def overwrite(row, rng, _):
    start = rng.integers(HEADER_BYTES, row.size)
    length = rng.integers(1, row.size)
    row[start : start + length] = rng.choice([0, 255, rng.integers(256)])
    return row


def splice(row, rng, other):
    start = rng.integers(HEADER_BYTES, row.size)
    row[start:] = other[start:]
    return row


def swap_polynomials(row, rng, _):
    half = (row.size - HEADER_BYTES) // 2
    return np.concatenate([row[:HEADER_BYTES], row[HEADER_BYTES + half :], row[HEADER_BYTES : HEADER_BYTES + half]])


def shift(row, rng, _):
    return np.concatenate([row[:HEADER_BYTES], np.roll(row[HEADER_BYTES:], rng.integers(1, row.size - HEADER_BYTES))])


def change_header(row, rng, _):
    row[rng.integers(HEADER_BYTES)] ^= rng.integers(1, 256, dtype=np.uint8)
    return row


def change_length(row, rng, _):
    length = rng.choice([row.size - 1, row.size + 1, 0, 1, HEADER_BYTES, 2 * row.size, rng.integers(row.size)])
    return np.resize(row, length)


def change_type(row, rng, _):
    return row.astype(rng.choice([np.int8, np.uint16, np.float64, np.int64, bool]))


# Malleable: the zero polynomial is a polynomial, and bytes shifted by one are nearly a product with 256.
VALUES_MAY_CHANGE = (flip_bit, flip_bits, overwrite, splice, shift)
ALWAYS_REFUSED = (swap_polynomials, change_header, change_length, change_type)


@pytest.mark.slow
def test_mutated_ciphertexts():
    public, secret = keypair("ring-2048")
    rng = np.random.default_rng(7)
    values = rng.integers(-(2**20), 2**20, 4 * public.slots)
    fresh, expected = public.encrypt(values), values.reshape(4, -1)
    outcomes: Counter[tuple[str, str]] = Counter()
    seed = bytes(16)
    tags = [mac_tag(row, seed) for row in expected]
    for _ in range(MUTATIONS):
        mutate = (*VALUES_MAY_CHANGE, *ALWAYS_REFUSED)[rng.integers(len(VALUES_MAY_CHANGE) + len(ALWAYS_REFUSED))]
        one, other = rng.choice(4, 2, replace=False)
        bad = mutate(fresh[one].copy(), rng, fresh[other])[None]
        try:
            total = public.accumulator(1)
            total.add(bad)
            decrypted = secret.decrypt(total.result(), public.slots)
        except InvalidCiphertext:
            outcome = "refused"
        else:
            assert decrypted.min() >= -(2**31)
            assert decrypted.max() < 2**31
            outcome = "unchanged" if np.array_equal(decrypted, expected[one]) else "changed"
            assert (mac_tag(decrypted, seed) == tags[one]) == (outcome == "unchanged")
        outcomes[mutate.__name__, outcome] += 1
    sys.stdout.write(f"{dict(sorted(outcomes.items()))}\n")  # for whoever runs more of them, with `pytest -s`
    for mutate in ALWAYS_REFUSED:
        assert outcomes[mutate.__name__, "refused"] > 0
        assert outcomes[mutate.__name__, "changed"] == outcomes[mutate.__name__, "unchanged"] == 0
    assert {name for name, outcome in outcomes if outcome == "changed"} <= {each.__name__ for each in VALUES_MAY_CHANGE}


@pytest.mark.slow
def test_a_flipped_bit_changes_values_only_by_multiples_of_delta():
    """Which flips can do what: below the noise bound nothing, at 2^18 a refusal, above it a change of values."""
    public, secret = keypair("ring-2048")
    values = np.arange(public.slots)
    fresh = public.encrypt(values)
    one = np.zeros((1, 1, public.dimension), np.int64)
    for polynomial in (0, 1):
        for bit in range(51):
            words = public.words(fresh)
            one[0, 0, 3] = 1 << bit
            words[:, polynomial : polynomial + 1] ^= one
            row = public.empty(1)
            public.write(words, row)
            if bit == BITS_BELOW_DELTA - 1:
                with pytest.raises(InvalidCiphertext):
                    secret.decrypt(row, public.slots)
            else:
                assert np.array_equal(secret.decrypt(row, public.slots), values) == (bit < BITS_BELOW_DELTA)


def test_a_stranger_s_rows_never_pass():
    public, secret = keypair("ring-2048")
    stranger, _ = generate_keypair("ring-2048")
    rows = stranger.encrypt(np.arange(50 * public.slots))
    rows[:, :HEADER_BYTES] = public.encrypt([0])[0, :HEADER_BYTES]
    for row in rows:
        with pytest.raises(InvalidCiphertext):
            secret.decrypt(row[None], public.slots)
