from __future__ import annotations

import json

import numpy as np

from sensecrypt.lab.bench.projections import combine_ciphertexts, combine_values, norm_error
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.round import Round
from tests.cli.test_app import sensecrypt
from tests.crypto.conftest import keypair

SIZE = 1000


def test_a_combination_of_ciphertexts_is_that_of_the_values():
    public, secret = keypair("insecure-test")
    round_ = Round("test", 0, 0, "model", SIZE, get_profile("insecure-test"), {0: 1.0})
    rng = np.random.default_rng(5)
    values, signs = rng.integers(-1000, 1000, SIZE), rng.choice(np.array([-1, 1]), size=(3, round_.blocks))
    found = secret.decrypt(combine_ciphertexts(public, public.encrypt(values), signs), 3 * round_.block)
    assert (found.reshape(3, -1) == combine_values(values, signs, round_)).all()


def test_the_error_falls_with_the_root_of_the_number_of_challenges():
    round_ = Round("test", 0, 0, "model", 20_000, get_profile("paillier-2048"), {0: 1.0})
    rng = np.random.default_rng(6)
    values = rng.integers(-1000, 1000, round_.size)
    one, sixteen = (norm_error(values, many, round_, rng=rng) for many in (1, 16))
    assert 0.06 < one < 0.12  # 1 / sqrt(2 * 63) is 0.089
    assert one / 6 < sixteen < one / 3


def test_all_of_it_is_measured_in_one_run():
    options = ("--model", "digits-mlp", "--challenges", "1,2", "--repeats", "1", "--json")
    rows = json.loads(sensecrypt("bench", "projections", *options))["rows"]
    assert [(row["way"], row["challenges"]) for row in rows] == [
        *(("encrypted", 1), ("encrypted", 2)),
        *(("blinded", 1), ("blinded", 2)),
    ]
    assert min(row["project_seconds"] for row in rows) > 0
    assert [row["extra_bytes"] for row in rows] == [512, 1024, 252, 504]
    assert [row["projections"] for row in rows] == [63, 126, 63, 126]
