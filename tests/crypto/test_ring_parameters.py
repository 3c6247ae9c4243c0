"""The parameters against the Homomorphic Encryption Standard, and against an estimate of our own."""

from __future__ import annotations

from math import e, log2, pi, sqrt

import pytest

from sensecrypt.crypto.ring.arithmetic import LARGEST_DIMENSION, MODULUS_BITS
from sensecrypt.crypto.ring.public import FIRST_BITS, HEADER_BYTES, VALUE_BITS
from sensecrypt.crypto.ring.sampling import TERNARY_VARIANCE, VARIANCE
from sensecrypt.profiles import PROFILES

RINGS = [profile for profile in PROFILES.values() if profile.scheme == "ring"]

# Albrecht et al., Homomorphic Encryption Security Standard, November 2018, secrets uniform in {−1, 0, 1}, 128 bits:
# the largest log q at dimension n, against classical (table 1) and quantum computers (table 2).
CLASSICAL = {1024: 27, 2048: 54, 4096: 109, 8192: 218, 16384: 438, 32768: 881}
QUANTUM = {1024: 25, 2048: 51, 4096: 101, 8192: 202, 16384: 411, 32768: 827}


@pytest.mark.parametrize("profile", RINGS, ids=lambda profile: profile.name)
def test_the_standard_gives_128_bits_in_both_tables(profile):
    assert profile.security_bits == 128
    assert min(CLASSICAL[profile.key_bits], QUANTUM[profile.key_bits]) >= MODULUS_BITS
    assert profile.key_bits <= LARGEST_DIMENSION
    assert sqrt(VARIANCE) >= 8 / sqrt(2 * pi)  # the standard's error
    assert TERNARY_VARIANCE == 2 / 3  # uniform in {−1, 0, 1}: `test_ternary_polynomials_are_uniform`


@pytest.mark.parametrize("profile", RINGS, ids=lambda profile: profile.name)
def test_sizes(profile):
    k = profile.slots // profile.key_bits
    assert profile.slots == k * profile.key_bits
    assert profile.ciphertext_bytes == HEADER_BYTES + profile.key_bits * (FIRST_BITS + k * VALUE_BITS) // 8
    assert profile.bytes_per_value <= (12 if k == 1 else 7.1)


def block_size(n: int, log_q: int) -> int:
    """The smallest BKZ block for which the primal attack works: Albrecht, Göpfert, Virdia, Wunderer 2017.

    Bai and Galbraith's embedding of m samples, the secret scaled up to the error's size.
    """
    sigma, scale = sqrt(VARIANCE), sqrt(VARIANCE / TERNARY_VARIANCE)
    for block in range(50, 2000):
        log_delta = log2((pi * block) ** (1 / block) * block / (2 * pi * e)) / (2 * (block - 1))
        for m in range(n // 2, 2 * n, 16):
            d = n + m + 1
            volume = (m * log_q + n * log2(scale)) / d
            if log2(sigma) + log2(block) / 2 <= (2 * block - d) * log_delta + volume:
                return block
    raise AssertionError


def test_the_primal_attack_costs_what_the_standard_says():
    """Its model: 2^(0.292·β + 16.4) a call with sieving, 0.265 for quantum computers, and 8d calls."""
    block = block_size(2048, MODULUS_BITS)
    calls = log2(8 * 2 * 2048)
    assert 0.292 * block + 16.4 + calls >= 128
    assert 0.265 * block + 16.4 + calls >= 128
    assert block_size(2048, 60) < block_size(2048, 54) < block  # the estimate follows the modulus
