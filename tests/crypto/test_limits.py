"""Limits that callers meet: each has a typed error that names it, in every kind of scheme."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

from sensecrypt import InvalidCiphertext, InvalidInput, ValueDoesNotFit, generate_keypair
from sensecrypt.errors import MissingExtra
from sensecrypt.protocol.round import Round
from tests.crypto.conftest import keypair


@pytest.fixture(params=["ring-2048", "ring-2048x4", "ckks-8192", "insecure-test"])
def keys(request):
    return keypair(request.param)


def test_a_profile_that_this_build_cannot_serve_says_what_to_install(monkeypatch):
    def without_tenseal(name, *rest, real=importlib.import_module):
        if name == "tenseal":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without_tenseal)
    with pytest.raises(MissingExtra, match=re.escape('pip install "sensecrypt[ckks]"')):
        generate_keypair("ckks-8192")


def test_a_profile_that_does_not_exist_names_those_that_do():
    with pytest.raises(InvalidInput, match=r"choose one of .*ring-2048, ring-2048x4"):
        generate_keypair("ring-4096")


def test_one_summand_more_than_the_stated_number_names_the_number(keys):
    public, _ = keys
    total, most = public.accumulator(1), public.profile.max_summands
    total.add(public.encrypt([1]))
    if most is None:
        return
    total._counts[:] = most
    with pytest.raises(InvalidInput, match=f"summand {most + 1:,} of a row; sums are exact up to {most:,}"):
        total.add(public.encrypt([1]))


def test_a_round_of_more_members_than_can_be_added_is_refused_before_anybody_is_asked(keys):
    profile = keys[0].profile
    most = profile.max_summands or 20_000
    allowed = dict.fromkeys(range(most), 1 / most)
    assert len(Round("run", 0, 0, "model", 10, profile, allowed).weights) == most
    if profile.max_summands is not None:
        with pytest.raises(InvalidInput, match=f"exact up to {most:,} uploads; set sample"):
            Round("run", 0, 0, "model", 10, profile, dict.fromkeys(range(most + 1), 1 / (most + 1)))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**80])
def test_a_value_beyond_its_slot_names_the_range(keys, value):
    with pytest.raises(ValueDoesNotFit, match="keep values within -2,147,483,648 … 2,147,483,647"):
        keys[0].encrypt([0, value])


def test_rows_of_another_length_or_number_name_what_is_expected(keys):
    public, secret = keys
    values = np.arange(public.slots + 1)
    good, length = public.encrypt(values), f"{public.profile.ciphertext_bytes:,} bytes"
    for use in (lambda rows: secret.decrypt(rows, values.size), public.accumulator(2).add):
        with pytest.raises(InvalidCiphertext, match=length):
            use(good[:, :-1])
    with pytest.raises(InvalidCiphertext, match="has 1 rows, for 2 rows of the sum"):
        public.accumulator(2).add(good[:1])
    with pytest.raises(InvalidInput, match=f"1 rows hold 1 to {public.slots:,} values"):
        secret.decrypt(good[:1], values.size)


def test_numbers_out_of_range_name_their_row(keys):
    """In ring ciphertexts every string of bits is in range: only the header can be wrong."""
    public, secret = keys
    bad = public.encrypt(np.arange(public.slots + 1))
    bad[1] = 255
    for use in (lambda rows: secret.decrypt(rows, public.slots + 1), public.accumulator(2).add):
        with pytest.raises(InvalidCiphertext, match=r"of this key in row 1\b"):
            use(bad)
