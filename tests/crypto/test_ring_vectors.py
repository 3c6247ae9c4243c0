"""Known answers, made by `plainring` in Python's integers: a tiny key written out, and the real parameters."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from sensecrypt.crypto.ring.public import RingPublicKey
from sensecrypt.crypto.ring.secret import RingSecretKey
from sensecrypt.profiles import PROFILES, Profile
from tests.crypto import plainring
from tests.crypto.conftest import keypair
from tests.vectors.make_ring_vectors import draw

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "ring.json").read_text())
TINY = Profile("ring-tiny", "ring", 16, 32, 32, 16 + 16 * (50 + 2 * 44) // 8, 0, 0, "none", "a vector")


def placed(polynomials, dtype=np.int8):
    return np.array([plainring.to_places(row) for row in polynomials], dtype=dtype)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["profile"])
def test_ciphertexts_are_those_of_plain_integers_bit_by_bit(case, monkeypatch):
    monkeypatch.setitem(PROFILES, TINY.name, TINY)
    drawn, seed = draw(case["seed"], case["n"], case["k"]), bytes.fromhex(case["public_seed"])
    # The verifier.
    polynomials = plainring.public_b(seed, drawn["s"], drawn["e"])
    expected = plainring.encrypt(
        case["profile"], seed, polynomials, drawn["values"], drawn["u"][0], drawn["f"], drawn["d"]
    )
    flat = [value for row in drawn["values"] for value in row]
    assert plainring.decrypt(expected, drawn["s"])[0] == flat
    if "ciphertext" in case:
        assert drawn == {name: case[name] for name in drawn}
        assert b"".join(map(plainring.to_bytes, polynomials)).hex() == case["b"]
        assert expected.hex() == case["ciphertext"]
    else:
        assert hashlib.sha256(expected).hexdigest() == case["ciphertext_sha256"]
    # Ours, from the same randomness.
    public = RingPublicKey(seed, b"".join(map(plainring.to_bytes, polynomials)), case["profile"])
    secret = RingSecretKey(placed(drawn["s"]), public)
    values = np.array(drawn["values"]).reshape(1, case["k"], case["n"])
    made = public.empty(1)
    d = placed(drawn["d"], np.uint8)[:, None]
    public._encrypt_with(values, placed(drawn["u"]), placed(drawn["f"])[:, None], d, made)
    assert made.tobytes() == expected
    assert secret.decrypt(made, values.size).tolist() == flat


@pytest.mark.parametrize("profile", ["ring-2048", "ring-2048x4"])
def test_plain_integers_decrypt_what_the_package_made(profile):
    public, secret = keypair(profile)
    n = public.dimension
    s = [plainring.from_places(row) for row in np.frombuffer(secret.secret_bytes(), np.int8).reshape(-1, n).tolist()]
    rng = np.random.default_rng(1)
    uploads = rng.integers(-(2**28), 2**28, (3, public.slots))
    total = public.accumulator(1)
    for values in uploads:
        encrypted = public.encrypt(values)
        assert plainring.decrypt(encrypted.tobytes(), s)[0] == values.tolist()
        total.add(encrypted)
    decrypted, noise = plainring.decrypt(total.result().tobytes(), s)
    assert decrypted == uploads.sum(axis=0).tolist()
    assert 100 < noise < 20_000
    known = public.add_plain(total.result(), uploads[0])
    assert plainring.decrypt(known.tobytes(), s)[0] == (uploads.sum(axis=0) + uploads[0]).tolist()
