"""Laws of the sums, what must never repeat, and what must be refused."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import gmpy2
import numpy as np
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from sensecrypt import (
    PROFILES,
    FixedPoint,
    InvalidCiphertext,
    InvalidInput,
    InvalidKey,
    PublicKey,
    RandomizerPool,
    SecretKey,
    ValueDoesNotFit,
    generate_keypair,
)
from sensecrypt.crypto.paillier.secret import generate_paillier
from tests.crypto.conftest import keypair

small = st.integers(-(2**20), 2**20)


class TestLaws:
    @given(st.lists(st.tuples(small, small), min_size=1, max_size=40))
    @settings(max_examples=50)
    def test_sum_of_ciphertexts_and_of_plaintexts(self, pairs):
        public, secret = keypair("insecure-test")
        a, b = (np.array(column) for column in zip(*pairs, strict=True))
        encrypted_a, encrypted_b = public.encrypt(a), public.encrypt(b)
        assert secret.decrypt(public.add(encrypted_a, encrypted_b), len(a)).tolist() == (a + b).tolist()
        assert secret.decrypt(public.add_plain(encrypted_a, b), len(a)).tolist() == (a + b).tolist()

    @given(st.data(), st.integers(2, 6))
    @settings(max_examples=25)
    def test_order_and_grouping_do_not_matter(self, data, count):
        public, _ = keypair("insecure-test")
        terms = [public.encrypt(data.draw(st.lists(small, min_size=3, max_size=3))) for _ in range(count)]
        left = terms[0]
        for term in terms[1:]:
            left = public.add(left, term)
        shuffled = data.draw(st.permutations(terms))
        right = shuffled[-1]
        for term in reversed(shuffled[:-1]):
            right = public.add(term, right)
        accumulator = public.accumulator(len(left))
        for term in data.draw(st.permutations(terms)):
            accumulator.add(term)
        assert np.array_equal(left, right)
        assert np.array_equal(left, accumulator.result())

    @pytest.mark.parametrize(
        ("profile", "clients"),
        [("insecure-test", 1), ("insecure-test", 17), ("insecure-test", 1000), ("paillier-2048-slot16", 17)],
    )
    def test_weighted_means_of_up_to_1000_clients_are_exact_in_fixed_point(self, profile, clients):
        public, secret = keypair(profile)
        form = FixedPoint(6, public.profile.slot_bits)
        rng = np.random.default_rng(clients)
        weights = rng.dirichlet(np.ones(clients))
        models = rng.uniform(-form.largest, form.largest, (clients, 20))
        encoded = [form.encode(model, weight) for model, weight in zip(models, weights, strict=True)]
        accumulator = public.accumulator(-(-20 // public.slots))
        for values in encoded:
            accumulator.add(public.encrypt(values))
        total = secret.decrypt(accumulator.result(), 20)
        assert np.array_equal(total, np.sum(encoded, axis=0))
        error = np.abs(form.decode(total, weights.sum()) - weights @ models)
        assert (error <= clients * 2.0 ** -(form.frac_bits + 1) + 1e-9).all()

    def test_packed_equals_unpacked(self):
        values = np.random.default_rng(0).integers(-(2**30), 2**30, 70)
        packed, packed_secret = keypair("paillier-2048")
        scalar, scalar_secret = keypair("paillier-2048-scalar")
        total = packed_secret.decrypt(packed.add(packed.encrypt(values), packed.encrypt(-values // 2)), 70)
        one_by_one = scalar_secret.decrypt(scalar.add(scalar.encrypt(values), scalar.encrypt(-values // 2)), 70)
        assert np.array_equal(total, one_by_one)

    @given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=40), st.integers(-1000, 1000))
    @settings(max_examples=50)
    def test_multiplication_by_a_number(self, values, factor):
        public, secret = keypair("insecure-test")
        product = public.multiply(public.encrypt(values), factor)
        assert secret.decrypt(product, len(values)).tolist() == [value * factor for value in values]

    def test_rerandomising_changes_the_bytes_and_not_the_values(self, insecure):
        public, secret = insecure
        a = public.encrypt([5, -6])
        b = public.rerandomise(a)
        assert not np.array_equal(a, b)
        assert secret.decrypt(b, 2).tolist() == [5, -6]


@pytest.mark.slow
def test_no_randomizer_appears_twice_in_100_000_encryptions(insecure):
    public, _ = insecure
    count = 100_000
    ciphertexts = public.encrypt(np.zeros(count * public.slots, dtype=np.int64), workers=2)
    assert len(np.unique(ciphertexts, axis=0)) == count


class TestInteroperability:
    """python-paillier holds the same key and reads our ciphertexts, and we read its."""

    @pytest.fixture
    def keys(self):
        public, secret = keypair("paillier-2048-scalar")
        theirs = phe.PaillierPublicKey(public.n)
        return public, secret, theirs, phe.PaillierPrivateKey(theirs, *secret.primes())

    @pytest.mark.parametrize("value", [0, 1, -1, 2**62, -(2**62)])
    def test_both_ways(self, keys, value):
        public, secret, their_public, their_secret = keys
        for ours in (public.encrypt([value]), secret.encrypt([value])):
            assert their_secret.decrypt(phe.EncryptedNumber(their_public, public.to_integers(ours)[0])) == value
        theirs = public.from_integers([their_public.encrypt(value).ciphertext()])
        assert secret.decrypt(theirs, 1).tolist() == [value]

    def test_after_additions_on_either_side(self, keys):
        public, secret, their_public, their_secret = keys
        ours, theirs = public.encrypt([1000]), their_public.encrypt(-1)
        mixed = public.add(ours, public.from_integers([theirs.ciphertext()]))
        assert secret.decrypt(mixed, 1).tolist() == [999]
        number = phe.EncryptedNumber(their_public, public.to_integers(mixed)[0])
        assert their_secret.decrypt(number + theirs + 5) == 1003
        assert secret.decrypt(public.from_integers([(number + theirs).ciphertext()]), 1).tolist() == [998]

    @pytest.mark.parametrize("factor", [1, 2503, -3])
    def test_after_a_multiplication_on_either_side(self, keys, factor):
        public, secret, their_public, their_secret = keys
        product = public.multiply(public.encrypt([-1234]), factor)
        [number] = public.to_integers(product)
        assert their_secret.decrypt(phe.EncryptedNumber(their_public, number)) == -1234 * factor
        theirs = public.from_integers([(their_public.encrypt(-1234) * factor).ciphertext()])
        assert secret.decrypt(public.add(product, theirs), 1).tolist() == [2 * -1234 * factor]

    def test_a_key_that_they_generated(self):
        their_public, their_secret = phe.generate_paillier_keypair(n_length=2048)
        public = PublicKey.from_modulus(their_public.n, "paillier-2048-scalar")
        secret = SecretKey(their_secret.p, their_secret.q, public)
        [number] = public.to_integers(public.encrypt([-77]))
        assert their_secret.decrypt(phe.EncryptedNumber(their_public, number)) == -77
        assert secret.decrypt(public.encrypt([-77]), 1).tolist() == [-77]


class TestRefusals:
    @pytest.mark.parametrize("forge", ["zero", "n", "multiple of p", "n squared", "too large"])
    def test_numbers_that_are_no_ciphertexts(self, insecure, forge):
        public, secret = insecure
        p, _ = secret.primes()
        good = public.encrypt([1])
        pair = {
            "zero": (0, 0),
            "n": (0, 1),
            "multiple of p": (p * 12345, 1),
            "n squared": (0, public.n),
            "too large": (public.n, 0),
        }[forge]
        width = public.half_bytes
        raw = b"".join(part.to_bytes(width, "little") for part in pair)
        bad = np.frombuffer(raw, dtype=np.uint8).reshape(1, -1)
        for use in (
            lambda: secret.decrypt(bad, 1),
            lambda: public.add(bad, good),
            lambda: public.add(good, bad),
            lambda: public.multiply(bad, 2),
            lambda: _accumulate(public, bad),
        ):
            with pytest.raises(InvalidCiphertext):
                use()

    def test_integers_outside_the_range(self, insecure):
        public, secret = insecure
        for bad in ([], [0], [public.n**2], [public.n], [-1], [secret.primes()[0]]):
            with pytest.raises(InvalidCiphertext):
                public.from_integers(bad)

    def test_a_small_key_outside_the_test_profile(self, insecure):
        public, _ = insecure
        with pytest.raises(InvalidKey, match="512 bits"):
            PublicKey(public.n, public.h, "paillier-2048")
        with pytest.raises(InvalidKey):
            PublicKey.from_modulus(public.n)

    def test_moduli_that_cannot_be_a_key(self, insecure):
        public, _ = insecure
        prime = generate_paillier("insecure-test").primes()[0]
        for n in (public.n + 1, prime * prime, 3 * (2**511 // 3 + 1) | 1, 2**511 + 111):
            with pytest.raises(InvalidKey):
                PublicKey(n, 4, "insecure-test")
        for h in (0, 1, public.n - 1, public.n, keypair("insecure-test")[1].primes()[0]):
            with pytest.raises(InvalidKey):
                PublicKey(public.n, h, "insecure-test")
        with pytest.raises(InvalidKey):
            PublicKey(public.n, public.h, "ckks-8192")

    def test_primes_of_another_key(self, insecure):
        public, _ = insecure
        p, q = generate_paillier("insecure-test").primes()
        with pytest.raises(InvalidKey) as error:
            SecretKey(p, q, public)
        assert str(p) not in str(error.value)

    def test_a_base_that_hides_nothing_is_noticed_by_the_secret_key(self, insecure):
        public, secret = insecure
        p, q = secret.primes()
        order_two_mod_p = int(q * pow(q, -1, p) * (p - 1) + p * pow(p, -1, q)) % public.n  # −1 mod p, 1 mod q
        tampered = PublicKey(public.n, order_two_mod_p, "insecure-test")
        with pytest.raises(InvalidKey, match="hides nothing"):
            SecretKey(p, q, tampered)

    def test_primes_of_unequal_length(self):
        p = int(gmpy2.next_prime(2**200))
        q = int(gmpy2.next_prime(2**311 + 2**310))
        public = PublicKey.from_modulus(p * q, "insecure-test")
        with pytest.raises(InvalidKey, match="do not make"):
            SecretKey(p, q, public)

    @pytest.mark.parametrize("value", ["1", None, 2.0**511, True, [1]])
    def test_keys_that_are_no_numbers(self, insecure, value):
        public, _ = insecure
        for make in (
            lambda: PublicKey(value, 4, "insecure-test"),
            lambda: PublicKey(public.n, value, "insecure-test"),
            lambda: PublicKey.from_modulus(value, "insecure-test"),
            lambda: SecretKey(value, 3, public),
        ):
            with pytest.raises(InvalidKey):
                make()

    @pytest.mark.parametrize("n", [0, 1, -5])
    def test_moduli_that_are_none(self, n):
        with pytest.raises(InvalidKey):
            PublicKey.from_modulus(n)

    @pytest.mark.parametrize(
        "rows",
        [
            np.array([0, 2, 1], dtype=np.uint64),
            np.array([0, 5, 1], dtype=np.uint64),
            np.array([True, False, True]),
            np.array([0.0, 1.0, 2.0]),
            np.array([[0, 1, 2]]),
            np.array([0, 1]),
        ],
    )
    def test_wrong_rows_leave_the_running_sum_as_it_was(self, insecure, rows):
        public, secret = insecure
        values = np.arange(3 * public.slots)
        encrypted = public.encrypt(values)
        accumulator = public.accumulator(3)
        accumulator.add(encrypted)
        with pytest.raises(InvalidCiphertext):
            accumulator.add(encrypted, rows)
        assert np.array_equal(secret.decrypt(accumulator.result(), values.size), values)

    @pytest.mark.parametrize("numbers", [[1.5], ["1"], [None], np.array([1, 2]), (n for n in [1, 2])])
    def test_integers_that_are_none(self, insecure, numbers):
        with pytest.raises(InvalidCiphertext):
            insecure[0].from_integers(numbers)

    @pytest.mark.parametrize("count", [10**5000, -(10**5000), True, 1.0], ids=["huge", "tiny", "bool", "float"])
    def test_counts_and_scalars_beyond_reason(self, insecure, count):
        public, secret = insecure
        ciphertexts = public.encrypt([1])
        for use in (
            lambda: secret.decrypt(ciphertexts, count),
            lambda: public.multiply(ciphertexts, count),
            lambda: public.accumulator(count),
        ):
            with pytest.raises(InvalidInput):
                use()

    @pytest.mark.parametrize(
        "ints",
        [[[1], [2, 3]], np.array([1], dtype="m8[s]"), np.ma.array([1, 2], mask=[True, False]), [True], ["1"], [1 + 0j]],
    )
    def test_values_that_are_no_whole_numbers(self, insecure, ints):
        with pytest.raises(InvalidInput):
            insecure[0].encrypt(ints)

    @pytest.mark.parametrize("ints", [[2**64], [-1, 2**63], [10**400]])
    def test_values_too_long_for_any_array_do_not_fit(self, insecure, ints):
        with pytest.raises(ValueDoesNotFit):
            insecure[0].encrypt(ints)

    def test_a_profile_of_ones_own_making(self, insecure):
        public, _ = insecure
        forged = dataclasses.replace(PROFILES["insecure-test"], name="paillier-2048", security_bits=112)
        for make in (lambda: PublicKey(public.n, public.h, forged), lambda: generate_keypair(forged)):
            with pytest.raises(InvalidInput, match="profile"):
                make()
        with pytest.raises(InvalidInput, match="profile"):
            generate_keypair([])

    def test_impossible_workers_cost_no_randomizer(self, insecure):
        public, _ = insecure
        pool = RandomizerPool(public)
        pool.fill(3)
        with pytest.raises(InvalidInput):
            public.encrypt([1], workers=-1, pool=pool)
        assert len(pool) == 3

    def test_rows_that_do_not_match(self, insecure):
        public, _ = insecure
        one, two = public.encrypt([1]), public.encrypt(np.arange(public.slots + 1))
        for use in (
            lambda: public.add(one, two),
            lambda: public.add_plain(one, np.arange(public.slots + 1)),
            lambda: public.accumulator(2).add(one),
        ):
            with pytest.raises(InvalidInput):
                use()

    def test_unknown_profiles(self):
        with pytest.raises(InvalidInput, match="choose one of"):
            generate_keypair("rsa-1024")


def test_threads_may_share_a_running_sum(insecure):
    public, secret = insecure
    values = np.arange(40 * public.slots) % 100
    encrypted = public.encrypt(values)
    accumulator = public.accumulator(40)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: accumulator.add(encrypted), range(20)))
    assert np.array_equal(secret.decrypt(accumulator.result(), values.size), 20 * values)


def test_blinding_is_fresh_for_every_call(insecure, monkeypatch):
    public, secret = insecure
    bases = []
    power = gmpy2.powmod
    monkeypatch.setattr(gmpy2, "powmod", lambda base, e, m: bases.append(base) or power(base, e, m))
    ciphertexts = public.encrypt(np.arange(3 * public.slots))
    bases.clear()
    for _ in range(4):
        secret.decrypt(ciphertexts, 3 * public.slots)
    assert len(set(bases)) == len(bases) == 4 * 3 * 2


def test_constant_time_decryption_gives_the_same(insecure):
    public, secret = insecure
    assert secret.decrypt(public.encrypt([5, -6]), 2, constant_time=True).tolist() == [5, -6]


def test_the_secret_keys_state_is_not_given_away(insecure):
    with pytest.raises(TypeError):
        insecure[1].__getstate__()
    assert not hasattr(insecure[1], "__dict__")


def test_a_sum_that_leaves_its_slot_is_noticed_in_the_scalar_layout():
    public, secret = keypair("paillier-2048-scalar")
    total = public.encrypt([2**62])
    for _ in range(2):
        total = public.add(total, total)
    with pytest.raises(InvalidCiphertext, match="no sum overflowed its slot"):
        secret.decrypt(total, 1)


def test_generated_primes_are_as_the_scheme_needs_them():
    for _ in range(5):
        p, q = (mpz(prime) for prime in generate_paillier("insecure-test").primes())
        assert p.is_prime()
        assert q.is_prime()
        assert p.bit_length() == q.bit_length() == 256
        assert p % 4 == q % 4 == 3
        assert (p * q).bit_length() == 512


def test_keys_are_values():
    public, _ = keypair("insecure-test")
    assert public == PublicKey(public.n, public.h, "insecure-test")
    assert hash(public) == hash(PublicKey(public.n, public.h, "insecure-test"))
    assert public != generate_keypair("insecure-test")[0]
    assert public != "key"
    assert repr(public) == f"PublicKey(insecure-test, {public.fingerprint})"


def _accumulate(public, bad):
    accumulator = public.accumulator(1)
    accumulator.add(bad)
    accumulator.result()
