from __future__ import annotations

import importlib

import numpy as np
import pytest

from sensecrypt import InvalidInput, InvalidKey, MissingExtra, generate_keypair
from sensecrypt.crypto import ckks
from sensecrypt.crypto.ckks import ERROR_BOUND, CkksPublicKey
from sensecrypt.crypto.ckks_secret import CkksSecretKey
from tests.crypto.conftest import keypair


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 100, 1000])
def test_sums_stay_within_the_stated_error(clients):
    public, secret = keypair("ckks-8192")
    rng = np.random.default_rng(clients)
    bound = 2**31 // clients - 1
    fresh = [rng.integers(-bound, bound, public.slots) for _ in range(min(clients, 20))]
    encrypted = [public.encrypt(values) for values in fresh]
    accumulator, exact = public.accumulator(1), np.zeros(public.slots, dtype=np.int64)
    for client in range(clients):
        accumulator.add(encrypted[client % len(fresh)])
        exact += fresh[client % len(fresh)]
    assert np.abs(secret.decrypt(accumulator.result(), public.slots) - exact).max() <= ERROR_BOUND


def test_the_public_context_holds_no_secret():
    public, secret = keypair("ckks-8192")
    assert not public._context.has_secret_key()
    with pytest.raises(InvalidKey, match="holds a secret key"):
        CkksPublicKey(secret.private_context())
    with pytest.raises(InvalidKey, match="holds no secret key"):
        CkksSecretKey(public.context)


def test_what_is_no_context_is_refused():
    for make in (CkksPublicKey, CkksSecretKey):
        with pytest.raises(InvalidKey):
            make(b"nonsense")
    with pytest.raises(InvalidKey):
        CkksPublicKey(keypair("ckks-8192")[0].context, "paillier-2048")


def test_keys_are_values():
    public, _ = keypair("ckks-8192")
    assert public == CkksPublicKey(public.context)
    assert hash(public) == hash(CkksPublicKey(public.context))
    assert public != "key"
    assert "ckks-8192" in repr(public)


def test_an_empty_sum_has_no_result():
    with pytest.raises(InvalidInput, match="nothing was added"):
        keypair("ckks-8192")[0].accumulator(1).result()


def test_without_tenseal_the_message_says_how_to_get_it(monkeypatch):
    def fail(name: str):
        raise ImportError(name)

    monkeypatch.setattr(ckks, "importlib", type("Stub", (), {"import_module": staticmethod(fail)}))
    with pytest.raises(MissingExtra, match=r"pip install 'sensecrypt\[ckks\]'"):
        generate_keypair("ckks-8192")
    assert importlib.import_module("tenseal")
