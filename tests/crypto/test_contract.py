"""What every scheme must do: `SchemeContract`, with a fixture `keys`. What is in PROFILES is held to it here."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from sensecrypt import PROFILES, InvalidCiphertext, InvalidInput, KeyFileError, ValueDoesNotFit, generate_keypair
from sensecrypt.crypto.scheme import MultiplyingKey, multiplying
from sensecrypt.crypto.schemes import SCHEMES, scheme_of
from sensecrypt.crypto.secretschemes import SECRET_SCHEMES, secret_scheme_of
from tests.crypto.conftest import keypair

pytestmark = pytest.mark.slow


def rows(public, values):
    return -(-len(values) // public.slots)


class SchemeContract:
    @pytest.fixture
    def values(self, keys):
        """Two rows and a bit, positive and negative, up to a quarter of the slot's range."""
        public, _ = keys
        quarter = 2 ** (public.profile.slot_bits - 3)
        return np.random.default_rng(0).integers(-quarter, quarter, min(2 * public.slots + 3, 5000))

    def test_decryption_inverts_encryption(self, keys, values):
        public, secret = keys
        for encrypt in (public.encrypt, secret.encrypt):
            ciphertexts = encrypt(values)
            assert ciphertexts.dtype == np.uint8
            assert ciphertexts.shape == (rows(public, values), public.profile.ciphertext_bytes)
            decrypted = secret.decrypt(ciphertexts, len(values))
            assert decrypted.dtype == np.int64
            assert np.array_equal(decrypted, values)

    def test_sums_are_exact(self, keys, values):
        public, secret = keys
        a, b = public.encrypt(values), secret.encrypt(-2 * values // 3)
        total = values + -2 * values // 3
        assert np.array_equal(secret.decrypt(public.add(a, b), len(values)), total)
        assert np.array_equal(secret.decrypt(public.add_plain(a, values), len(values)), 2 * values)
        accumulator = public.accumulator(len(a))
        accumulator.add(a)
        accumulator.add(b)
        accumulator.add(a)
        assert np.array_equal(secret.decrypt(accumulator.result(), len(values)), total + values)

    def test_products_are_exact_where_the_scheme_multiplies(self, keys, values):
        public, secret = keys
        if not public.profile.multiplies:
            assert not isinstance(public, MultiplyingKey)
            with pytest.raises(InvalidInput, match="cannot be multiplied"):
                multiplying(public)
            return
        small = values // 2**8
        for factor in (0, 1, 113, -7):
            product = multiplying(public).multiply(public.encrypt(small), factor)
            assert np.array_equal(secret.decrypt(product, len(values)), factor * small)
        for factor in (1.0, True, 2**63):
            with pytest.raises(InvalidInput):
                multiplying(public).multiply(public.encrypt(small), factor)

    def test_a_running_sum_takes_uploads_of_some_rows(self, keys):
        public, secret = keys
        values = np.arange(2 * public.slots)
        encrypted = public.encrypt(values)
        accumulator = public.accumulator(2)
        accumulator.add(encrypted)
        accumulator.add(encrypted[1:], np.array([1]))
        doubled = secret.decrypt(accumulator.result(np.array([1])), public.slots)
        assert np.array_equal(doubled, 2 * values[public.slots :])
        for rows in (np.array([-1]), np.array([2]), np.array([1, 0]), np.array([0, 0])):
            with pytest.raises(InvalidCiphertext):
                accumulator.add(encrypted[: len(rows)], rows)

    def test_extreme_values_survive(self, keys):
        public, secret = keys
        top = 2 ** (public.profile.slot_bits - 1) - 1
        values = np.array([top, -top - 1, 0, -1, 1][: max(1, min(5, public.slots))])
        assert np.array_equal(secret.decrypt(public.encrypt(values), len(values)), values)

    def test_two_encryptions_differ_and_are_equally_long(self, keys):
        public, _ = keys
        a, b, other = public.encrypt([7]), public.encrypt([7]), public.encrypt([-(2**14)])
        assert not np.array_equal(a, b)
        assert a.shape == b.shape == other.shape

    def test_workers_change_nothing(self, keys, values):
        public, secret = keys
        ciphertexts = public.encrypt(values, workers=2)
        assert np.array_equal(secret.decrypt(ciphertexts, len(values), workers=2), values)

    def test_the_public_key_cannot_decrypt_and_the_secret_key_does_not_show(self, keys):
        public, secret = keys
        assert not hasattr(public, "decrypt")
        assert secret.public == public
        assert "<hidden>" in repr(secret)
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be"):
                attempt(secret)

    def test_a_value_that_does_not_fit_is_named_but_not_told(self, keys):
        public, _ = keys
        if public.profile.slot_bits == 64:
            with pytest.raises(ValueDoesNotFit):
                public.encrypt(np.array([0, 2**63], dtype=np.uint64))
            return
        too_large = 2 ** (public.profile.slot_bits - 1) + 12345
        with pytest.raises(ValueDoesNotFit) as error:
            public.encrypt([0, too_large])
        assert "index 1" in str(error.value)
        assert f"{2 ** (public.profile.slot_bits - 1) - 1:,}" in error.value.fix
        assert "12345" not in str(error.value).replace(",", "")

    @pytest.mark.parametrize("ints", [[], [1.5], [float("nan")], ["a"]])
    def test_what_is_no_whole_number_is_refused(self, keys, ints):
        with pytest.raises(InvalidInput) as error:
            keys[0].encrypt(ints)
        assert error.value.argument == "ints"

    def test_malformed_ciphertexts_are_refused(self, keys):
        public, secret = keys
        good = public.encrypt([1])
        for bad in (
            good[:, :-1],
            np.concatenate([good, good[:, :1]], axis=1),
            good[0],
            good.astype(np.int64),
            good.tobytes(),
            good[:0],
            np.full_like(good, 255),
            np.zeros_like(good),
        ):
            with pytest.raises(InvalidCiphertext):
                secret.decrypt(bad, 1)
            with pytest.raises(InvalidCiphertext):
                public.add(good, bad)
            accumulator = public.accumulator(1)
            with pytest.raises(InvalidCiphertext):
                accumulator.add(bad)

    def test_an_invalid_upload_leaves_the_running_sum_as_it_was(self, keys, values):
        public, secret = keys
        good = public.encrypt(values)
        accumulator = public.accumulator(len(good))
        accumulator.add(good)
        bad = good.copy()
        bad[-1] = 255
        with pytest.raises(InvalidCiphertext):
            accumulator.add(bad)
        with pytest.raises(InvalidCiphertext):
            accumulator.add(good[:-1] if len(good) > 1 else np.concatenate([good, good]))
        assert np.array_equal(secret.decrypt(accumulator.result(), len(values)), values)

    def test_a_ciphertext_of_another_key_does_not_pass(self, keys):
        public, secret = keys
        stranger, _ = generate_keypair(public.profile)
        foreign = stranger.encrypt(np.arange(public.slots))
        with pytest.raises(InvalidCiphertext):
            secret.decrypt(foreign, public.slots)

    def test_a_wrong_count_is_refused(self, keys):
        public, secret = keys
        ciphertexts = public.encrypt([1])
        for count in (0, public.slots + 1):
            with pytest.raises(InvalidInput):
                secret.decrypt(ciphertexts, count)

    def test_both_halves_survive_their_fields_in_a_key_file(self, keys):
        public, secret = keys
        profile = public.profile
        shown, hidden = SCHEMES[profile.scheme], SECRET_SCHEMES[profile.scheme]
        fields = json.loads(json.dumps(shown.fields(public)))
        assert shown.parse(fields, profile) == public
        again = hidden.parse(hidden.serialize(secret), public)
        assert again.public == public
        assert again.decrypt(public.encrypt([5]), 1).tolist() == [5]
        assert scheme_of(public) is shown
        assert secret_scheme_of(secret) is hidden
        for wrong, find in ((secret, scheme_of), (public, secret_scheme_of)):
            with pytest.raises(KeyFileError, match="key"):
                find(wrong)


@pytest.fixture(scope="module", params=list(PROFILES))
def keys(request):
    return keypair(request.param)


class TestEveryProfile(SchemeContract):
    pass


def test_both_registries_know_the_schemes_of_all_profiles():
    assert set(SCHEMES) == set(SECRET_SCHEMES) == {profile.scheme for profile in PROFILES.values()}
