"""The profile whose randomizers live in a small subgroup: its keys, its decryption, and all that must be refused."""

from __future__ import annotations

import json
import time

import gmpy2
import numpy as np
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from sensecrypt import InvalidCiphertext, InvalidKey, KeyFileError, PublicKey, RandomizerPool, SecretKey
from sensecrypt.crypto import keyfile, parallel, passphrase
from sensecrypt.crypto.paillier import secret as secret_module
from sensecrypt.crypto.paillier.public import fresh_randomizers
from sensecrypt.crypto.paillier.secret import generate_paillier
from sensecrypt.profiles import DEFAULT_PROFILE, PROFILES, Profile
from tests.crypto.conftest import keypair

NAME = "paillier-2048-subgroup"
SMALL = Profile("small-subgroup", "paillier", 512, 32, 15, 128, 256, 0, "none", "for this file", 64)
# p = 2·11·151 + 1 and q = 2·13·131 + 1: every unit can be tried.
TINY = Profile("tiny-subgroup", "paillier", 24, 8, 1, 6, 16, 0, "none", "for this file", 4)
small = st.integers(-(2**20), 2**20)


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setitem(PROFILES, SMALL.name, SMALL)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(PROFILES, TINY.name, TINY)
    p, q = 2 * 11 * 151 + 1, 2 * 13 * 131 + 1
    public = PublicKey(p * q, p * q - pow(5, 2 * 151 * 131, p * q), TINY)
    return public, SecretKey(p, q, public, (11, 13))


def textbook(secret, number):
    """Decryption with λ and Python's `pow` alone."""
    p, q = secret.primes()
    n, order = p * q, (p - 1) * (q - 1) // 2
    return (pow(number, order, n * n) - 1) // n * pow(order, -1, n) % n


def decrypt_numbers(public, secret, numbers):
    """What the inner loop returns: plaintexts, and n for what is outside the subgroup."""
    pairs = public.parse("numbers", public.from_integers(numbers))
    return [int(m) for m in secret._decrypt_rows(pairs, gmpy2.powmod)]


class TestKeys:
    def check(self, secret, bits, alpha_bits):
        (p, q), alphas = secret.primes(), secret.alphas()
        assert (p * q).bit_length() == bits
        assert gmpy2.gcd(p - 1, q - 1) == 2
        assert alphas[0] != alphas[1]
        for prime, alpha in zip((p, q), alphas, strict=True):
            cofactor, rest = divmod(prime - 1, 2 * alpha)
            assert rest == 0
            assert all(gmpy2.is_prime(number) for number in (prime, alpha, cofactor))
            assert (prime.bit_length(), alpha.bit_length()) == (bits // 2, alpha_bits)
            assert prime >> (bits // 2 - 2) == prime % 4 == 3

    def test_primes_have_the_form_that_the_profile_says(self, subgroup):
        self.check(subgroup[1], 2048, 256)

    @pytest.mark.usefixtures("_small")
    def test_many_small_keys(self):
        keys = [generate_paillier(SMALL) for _ in range(10)]
        for secret in keys:
            self.check(secret, 512, 64)
            assert secret.decrypt(secret.public.encrypt([1, -2]), 2).tolist() == [1, -2]
        assert len({prime for secret in keys for prime in secret.primes() + secret.alphas()}) == 40

    def test_the_base_has_exactly_the_order_that_the_profile_says(self, subgroup):
        public, secret = subgroup
        alpha_p, alpha_q = secret.alphas()
        order = 2 * alpha_p * alpha_q
        for base, modulus in ((public.h, public.n), (pow(public.h, public.n, public.n**2), public.n**2)):
            assert gmpy2.powmod(base, order, modulus) == 1
            assert all(gmpy2.powmod(base, order // prime, modulus) != 1 for prime in (2, alpha_p, alpha_q))
        assert gmpy2.jacobi(public.h, public.n) == 1

    def test_exponents_are_much_longer_than_the_order(self, subgroup):
        public, secret = subgroup
        assert public.profile.exponent_bits >= (2 * secret.alphas()[0] * secret.alphas()[1]).bit_length() + 127
        widths = []

        class Spy:
            def randomizers(self, exponents):
                widths.append(exponents.shape)
                return secret.randomizers(exponents)

        fresh_randomizers(public, Spy(), 3)
        assert widths == [(3, 80)]

    @pytest.mark.slow
    def test_making_a_key_takes_seconds(self):
        def seconds():
            start = time.process_time()
            generate_paillier(NAME)
            return time.process_time() - start

        assert min(seconds() for _ in range(3)) < 5

    def test_the_sieve_leaves_what_has_no_small_factor(self, monkeypatch):
        monkeypatch.setattr(secret_module, "SIEVE_WINDOW", 300)
        start, step = 10**40 + 1, 2 * (2**89 - 1)
        primorial = gmpy2.primorial(secret_module.SIEVE_BELOW)
        expected = [
            place
            for place in range(300)
            if gmpy2.gcd((start + 2 * place) * (step * (start + 2 * place) + 1), primorial) == 1
        ]
        assert secret_module._unsieved(start, step) == expected

    def test_it_is_not_the_default_and_says_what_it_rests_on(self):
        assert DEFAULT_PROFILE != NAME
        assert "subgroup" in PROFILES[NAME].assumption
        assert [profile.name for profile in PROFILES.values() if profile.subgroup_bits] == [NAME]


class TestDecryption:
    @given(st.lists(st.tuples(small, small), min_size=1, max_size=70), st.integers(-1000, 1000))
    @settings(max_examples=15, deadline=None)
    def test_sums_and_multiples(self, pairs, scalar):
        public, secret = keypair(NAME)
        a, b = (np.array(column) for column in zip(*pairs, strict=True))
        one, other = public.encrypt(a), secret.encrypt(b)
        assert secret.decrypt(public.add(one, other), len(a)).tolist() == (a + b).tolist()
        assert secret.decrypt(public.add_plain(one, b), len(a)).tolist() == (a + b).tolist()
        assert secret.decrypt(public.multiply(one, scalar), len(a)).tolist() == (a * scalar).tolist()
        assert secret.decrypt(public.rerandomise(one), len(a), constant_time=True).tolist() == a.tolist()

    def test_it_agrees_with_the_textbook(self, subgroup):
        public, secret = subgroup
        ciphertexts = np.concatenate([public.encrypt([7, -8]), secret.encrypt([-(2**31)] * 63)])
        numbers = public.to_integers(ciphertexts)
        assert decrypt_numbers(public, secret, numbers) == [textbook(secret, number) for number in numbers]

    def test_both_sides_make_the_same_randomizers(self, subgroup):
        public, secret = subgroup
        exponents = np.random.default_rng(0).integers(0, 256, (3, 80), dtype=np.uint8)
        assert public.randomizers(exponents) == secret.randomizers(exponents)

    def test_a_pool_serves_it(self, subgroup):
        public, secret = subgroup
        pool = RandomizerPool(public, secret)
        pool.fill(1)
        assert secret.decrypt(public.encrypt([3], pool=pool), 1).tolist() == [3]

    def test_every_unit_of_a_tiny_key(self, tiny):
        """Accepted is exactly the subgroup, times every plaintext; and it is decrypted as the textbook does."""
        public, secret = tiny
        p, q = secret.primes()
        inside_q = [b for b in range(1, q) if pow(b, 26, q) == 1]
        for a in range(1, p):
            b = inside_q[a % 26]
            x = (a * q * pow(q, -1, p) + b * p * pow(p, -1, q)) % public.n
            number = pow(x, public.n, public.n**2) * (1 + 1234 * a * public.n) % public.n**2
            expected = 1234 * a % public.n if pow(a, 22, p) == 1 else public.n
            assert decrypt_numbers(public, secret, [number]) == [expected]
            assert expected in (public.n, textbook(secret, number))
        outside_q = next(b for b in range(2, q) if b not in inside_q)
        x = (q * pow(q, -1, p) + outside_q * p * pow(p, -1, q)) % public.n
        assert decrypt_numbers(public, secret, [x]) == [public.n]

    def test_blinding_is_fresh_and_stays_in_the_subgroup(self, subgroup):
        _, secret = subgroup
        for half in (secret._half_p, secret._half_q):
            blinds = [half.blind() for _ in range(8)]
            blinds += [blind * blind % half.square for blind in blinds]
            assert len(set(blinds)) == 16
            assert all(gmpy2.powmod(blind, half.exponent, half.square) == 1 for blind in blinds)

    def test_no_two_exponentiations_have_one_base(self, subgroup, monkeypatch):
        public, secret = subgroup
        ciphertexts = public.encrypt(np.arange(3 * public.slots))
        calls, power = [], gmpy2.powmod
        monkeypatch.setattr(gmpy2, "powmod", lambda base, e, m: calls.append((base, e)) or power(base, e, m))
        for _ in range(4):
            secret.decrypt(ciphertexts, 3 * public.slots)
        assert len({base for base, _ in calls}) == len(calls) == 4 * 3 * 2
        assert {exponent for _, exponent in calls} == {2 * alpha for alpha in secret.alphas()}

    def test_blinds_of_a_tiny_key_are_all_of_the_subgroup(self, tiny):
        half = tiny[1]._half_p
        assert len({int(half.blind()) for _ in range(1000)}) == 22

    @pytest.mark.parametrize("profile", ["insecure-test", "paillier-2048"])
    def test_other_profiles_use_the_whole_group(self, profile):
        _, secret = keypair(profile)
        assert secret.alphas() == ()
        assert [secret._half_p.exponent, secret._half_q.exponent] == [prime - 1 for prime in secret.primes()]


class TestRefusals:
    def outside(self, public):
        """A valid encryption of 5, whose randomizer is a random n-th power as in python-paillier."""
        return public.from_integers([phe.PaillierPublicKey(public.n).raw_encrypt(5)])

    @pytest.mark.parametrize("workers", [1, 2])
    def test_a_ciphertext_outside_the_subgroup(self, subgroup, monkeypatch, workers):
        monkeypatch.setattr(parallel, "WORTHWHILE_SECONDS", 1e-9)
        public, secret = subgroup
        good, bad = public.encrypt([1]), self.outside(public)
        assert textbook(secret, public.to_integers(bad)[0]) == 5
        for rows, row in ((bad, 0), (public.add(good, bad), 0), (public.multiply(bad, 3), 0), (np.r_[good, bad], 1)):
            for constant_time in (False, True):
                with pytest.raises(InvalidCiphertext, match=f"outside the subgroup in row {row}"):
                    secret.decrypt(rows, 63 * row + 1, workers=workers, constant_time=constant_time)

    def test_a_ciphertext_outside_modulo_one_prime_alone(self, subgroup):
        public, secret = subgroup
        p, q = secret.primes()
        for inside, outside in ((p, q), (q, p)):
            x = (outside * pow(outside, -1, inside) + 2 * inside * pow(inside, -1, outside)) % public.n
            with pytest.raises(InvalidCiphertext, match="outside the subgroup"):
                secret.decrypt(public.write([(mpz(x), mpz(0))]), 1)

    def test_a_sender_with_a_base_of_its_own(self, subgroup):
        """`from_modulus` knows no base of the subgroup: its ciphertexts, and a secret key for it, are refused."""
        public, secret = subgroup
        own = PublicKey(public.n, -(3**2) % public.n, NAME)
        with pytest.raises(InvalidCiphertext, match="outside the subgroup"):
            secret.decrypt(own.encrypt([1]), 1)
        with pytest.raises(InvalidKey, match="h: is outside the subgroup"):
            SecretKey(*secret.primes(), own, secret.alphas())

    def test_alphas_that_are_not_the_keys(self, subgroup):
        public, secret = subgroup
        (p, q), (alpha_p, alpha_q) = secret.primes(), secret.alphas()
        wrong = [
            (),
            (alpha_p,),
            (alpha_p, alpha_q, alpha_q),
            (alpha_q, alpha_p),
            (alpha_p, alpha_p),
            ((p - 1) // 2 // alpha_p, alpha_q),  # a prime that divides p − 1, too long
            ((p - 1) // 2, alpha_q),
            (alpha_p, int(gmpy2.next_prime(2**255))),
            (alpha_p, alpha_q + 1),
            (alpha_p, 0),
            (1, alpha_q),
            (-alpha_p, alpha_q),
        ]
        for alphas in wrong:
            with pytest.raises(InvalidKey, match="alphas") as error:
                SecretKey(p, q, public, alphas)
            assert str(alpha_p) not in str(error.value)
        for alphas in ([alpha_p, alpha_q], None, (str(alpha_p), alpha_q), (True, alpha_q), (float(alpha_p), alpha_q)):
            with pytest.raises(InvalidKey, match="alphas"):
                SecretKey(p, q, public, alphas)

    def test_a_base_of_too_small_an_order(self, subgroup):
        public, secret = subgroup
        alpha_p, alpha_q = secret.alphas()
        for exponent in (alpha_p, alpha_q):
            weak = PublicKey(public.n, pow(public.h, exponent, public.n), NAME)
            with pytest.raises(InvalidKey, match="hides nothing"):
                SecretKey(*secret.primes(), weak, secret.alphas())

    def test_the_primes_of_another_profile(self, subgroup, real):
        public, secret = real
        with pytest.raises(InvalidKey, match="alphas"):
            SecretKey(*secret.primes(), PublicKey(public.n, public.h, NAME), subgroup[1].alphas())
        with pytest.raises(InvalidKey, match="alphas"):
            SecretKey(*secret.primes(), public, subgroup[1].alphas())

    def test_such_a_key_may_serve_another_profile_without_its_subgroup(self, subgroup):
        public, secret = subgroup
        plain = SecretKey(*secret.primes(), PublicKey(public.n, public.h))
        assert plain.decrypt(self.outside(public), 1).tolist() == [5]


class TestKeyFile:
    PHRASE = "correct horse battery"

    @pytest.fixture(autouse=True)
    def cheap_scrypt(self, monkeypatch):
        monkeypatch.setattr(passphrase, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})

    def test_it_keeps_what_decryption_needs(self, subgroup, tmp_path):
        public, secret = subgroup
        keyfile.write_secret(tmp_path / "key.json", secret, self.PHRASE)
        loaded = keyfile.read_secret(tmp_path / "key.json", self.PHRASE)
        assert (loaded.primes(), loaded.alphas()) == (secret.primes(), secret.alphas())
        assert loaded.decrypt(public.encrypt([1, -2]), 2).tolist() == [1, -2]

    def test_files_of_other_profiles_are_as_before(self, insecure):
        p, q = insecure[1].primes()
        assert json.loads(keyfile._secret_bytes(insecure[1])) == {"p": f"{p:x}", "q": f"{q:x}"}

    @pytest.mark.parametrize("change", ["swap", "drop", "composite", "short", "not hexadecimal", "a list"])
    def test_a_secret_part_that_does_not_fit_is_refused(self, subgroup, tmp_path, monkeypatch, change):
        _, secret = subgroup
        parts = json.loads(keyfile._secret_bytes(secret))
        forged = {
            "swap": {**parts, "alpha_p": parts["alpha_q"], "alpha_q": parts["alpha_p"]},
            "drop": {name: parts[name] for name in ("p", "q", "alpha_p")},
            "composite": {**parts, "alpha_p": f"{(secret.primes()[0] - 1) // 2:x}"},
            "short": {**parts, "alpha_q": parts["alpha_q"][:-1]},
            "not hexadecimal": {**parts, "alpha_q": 5},
            "a list": list(parts.values()),
        }[change]
        monkeypatch.setattr(keyfile, "_secret_bytes", lambda key: json.dumps(forged).encode())
        keyfile.write_secret(tmp_path / "key.json", secret, self.PHRASE)
        with pytest.raises(KeyFileError, match="damaged") as error:
            keyfile.read_secret(tmp_path / "key.json", self.PHRASE)
        assert parts["alpha_p"] not in str(error.value)

    def test_another_base_in_the_public_part_is_refused(self, subgroup, tmp_path):
        public, secret = subgroup
        keyfile.write_secret(tmp_path / "key.json", secret, self.PHRASE)
        fields = json.loads((tmp_path / "key.json").read_text())
        other = PublicKey(public.n, -(3**2) % public.n, NAME)
        fields |= {"public": {"n": f"{other.n:x}", "h": f"{other.h:x}"}, "fingerprint": other.fingerprint}
        (tmp_path / "key.json").write_text(json.dumps(fields))
        with pytest.raises(KeyFileError, match="cannot be decrypted"):
            keyfile.read_secret(tmp_path / "key.json", self.PHRASE)


def test_a_sender_cannot_draw_the_base_of_a_subgroup_key():
    with pytest.raises(InvalidKey, match="public key file"):
        PublicKey.from_modulus(15, "paillier-2048-subgroup")
