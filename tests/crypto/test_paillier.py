"""Laws of the sums, what must never repeat, and what must be refused."""

from __future__ import annotations

import numpy as np
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from sensecrypt import FixedPoint, InvalidCiphertext, InvalidInput, InvalidKey, PublicKey, SecretKey, generate_keypair
from sensecrypt.crypto.secret import generate_paillier
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

    @given(small, st.integers(-1000, 1000))
    @settings(max_examples=50)
    def test_multiplication_by_a_number(self, value, scalar):
        public, secret = keypair("insecure-test")
        product = public.multiply(public.encrypt([value]), scalar)
        assert secret.decrypt(product, 1).tolist() == [value * scalar]

    def test_rerandomising_changes_the_bytes_and_not_the_values(self, insecure):
        public, secret = insecure
        a = public.encrypt([5, -6])
        b = public.rerandomise(a)
        assert not np.array_equal(a, b)
        assert secret.decrypt(b, 2).tolist() == [5, -6]


@pytest.mark.slow
def test_no_obfuscator_appears_twice_in_100_000_encryptions(insecure):
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
        for n in (public.n + 1, prime * prime):
            with pytest.raises(InvalidKey):
                PublicKey(n, 4, "insecure-test")
        for h in (0, 1, public.n, keypair("insecure-test")[1].primes()[0]):
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


def test_a_sum_that_leaves_its_slot_is_noticed_in_the_scalar_layout():
    public, secret = keypair("paillier-2048-scalar")
    total = public.encrypt([2**62])
    for _ in range(2):
        total = public.add(total, total)
    with pytest.raises(InvalidCiphertext, match="no sum left its slot"):
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
