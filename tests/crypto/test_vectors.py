"""Known answers: a tiny key worked by hand, and 2048-bit vectors with a verifier that uses only Python's `pow`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gmpy2 import mpz

from sensecrypt import PublicKey, SecretKey
from sensecrypt.crypto.paillier.public import hide
from sensecrypt.profiles import PROFILES, Profile

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "paillier.json").read_text())

# n = 251 · 239 = 59,989. With h = −2² = 59,985: h_s = 59985^59989 mod 59989².
TINY = Profile("tiny", "paillier", 16, 8, 1, 4, 16, 0, "none", "worked by hand")


def obfuscate(public, exponent: int):
    """The deterministic twin of encryption's random part."""
    width = public.profile.exponent_bits // 8
    return public.randomizers(np.frombuffer(exponent.to_bytes(width, "little"), dtype=np.uint8).reshape(1, width))


@pytest.fixture
def _tiny(monkeypatch):
    monkeypatch.setitem(PROFILES, "tiny", TINY)


@pytest.mark.usefixtures("_tiny")
class TestTinyKey:
    n, p, q, h = 59_989, 251, 239, 59_985
    n2 = 59_989**2  # 3,598,680,121

    def keys(self):
        public = PublicKey(self.n, self.h, TINY)
        return public, SecretKey(self.p, self.q, public)

    def test_exponent_zero_leaves_the_plaintext_in_sight(self):
        public, _ = self.keys()
        # (1 + 42·59989) · 1 = 2,519,539: the pair (1, 42).
        assert hide(public, obfuscate(public, 0), [mpz(42)]) == [(1, 42)]
        assert public.to_integers(public.write([(mpz(1), mpz(42))])) == [2_519_539]

    def test_exponent_one_is_the_base_itself(self):
        public, _ = self.keys()
        base = pow(self.h, self.n, self.n2)
        [(x, u)] = obfuscate(public, 1)
        assert x * (1 + u * self.n) % self.n2 == base
        # h^n mod n is h^(n mod φ) = h^489 mod n, as φ = 250·238 = 59,500 and n = φ + 489.
        assert x == pow(self.h, 489, self.n)

    @pytest.mark.parametrize("exponent", [0, 1, 2, 17, 255, 256, 65_535])
    @pytest.mark.parametrize("m", [0, 1, -1, 127, -128])
    def test_every_case_against_the_formula_and_back(self, exponent, m):
        public, secret = self.keys()
        expected = (1 + m * self.n) * pow(pow(self.h, self.n, self.n2), exponent, self.n2) % self.n2
        ciphertext = public.write(hide(public, obfuscate(public, exponent), [mpz(m)]))
        assert public.to_integers(ciphertext) == [expected]
        by_crt = secret.randomizers(np.array([[exponent % 256, exponent // 256]], dtype=np.uint8))
        assert hide(public, by_crt, [mpz(m)]) == public.parse("c", ciphertext)
        assert secret.decrypt(ciphertext, 1).tolist() == [m]

    def test_addition_by_hand(self):
        public, secret = self.keys()
        # (1 + 3n)(1 + 4n) = 1 + 7n (mod n²)
        three, four = (public.write([(mpz(1), mpz(m))]) for m in (3, 4))
        assert public.parse("c", public.add(three, four)) == [(1, 7)]
        assert secret.decrypt(public.multiply(three, -5), 1).tolist() == [-15]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["profile"])
def test_2048_bit_vectors(case):
    p, q, h, a, m, c = (int(case[name], 16) for name in ("p", "q", "h", "exponent", "plaintext", "ciphertext"))
    n = p * q
    # The verifier.
    assert n.bit_length() == 2048
    assert c == (1 + m * n) * pow(pow(h, n, n * n), a, n * n) % (n * n)
    assert (pow(c, (p - 1) * (q - 1), n * n) - 1) // n * pow((p - 1) * (q - 1), -1, n) % n == m
    # Ours, both ways, from the same randomness.
    public = PublicKey(n, h, case["profile"])
    secret = SecretKey(p, q, public)
    plaintexts = public.plaintexts(case["values"])
    exponent = a.to_bytes(public.profile.exponent_bits // 8, "little")
    row = np.frombuffer(exponent, dtype=np.uint8).reshape(1, -1)
    for maker in (public, secret):
        assert public.to_integers(public.write(hide(public, maker.randomizers(row), plaintexts))) == [c]
    assert secret.decrypt(public.from_integers([c]), len(case["values"])).tolist() == case["values"]
