"""A scheme is its code, one profile, and one line in each registry: shown with a toy that protects nothing."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import pytest

from sensecrypt import PROFILES, InvalidCiphertext, InvalidInput, Profile, checks, generate_keypair
from sensecrypt.config import make_config
from sensecrypt.crypto.base import check_rows, check_shape, same_rows
from sensecrypt.crypto.encoding import check_ints, rows_of
from sensecrypt.crypto.keyfile import read_secret, write_secret
from sensecrypt.crypto.publicfile import read_public, write_public
from sensecrypt.crypto.scheme import PublicScheme, SecretScheme
from sensecrypt.crypto.schemes import SCHEMES
from sensecrypt.crypto.secretschemes import SECRET_SCHEMES
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local
from tests.crypto.test_contract import SchemeContract

TOY = Profile("toy", "insecure-toy", 64, 32, 16, 8 * (2 + 16), 0, 0, "none: the public key decrypts", "tests only")


class InsecurePublic:
    """Enc(m; r) = (name, r, m + r·s modulo 2^64) with the key s, which is public: insecure."""

    def __init__(self, s, profile):
        self.s, self.profile, self.slots = np.uint64(s), profile, profile.slots
        self.name = np.frombuffer(hashlib.sha256(self.s.tobytes()).digest()[:8], np.uint64)[0]
        self.fingerprint = f"{self.name:016x}"

    def encrypt(self, ints, *, workers=1):
        values = self.rows(ints)
        r = np.array([[secrets.randbits(64)] for _ in values], np.uint64)
        return self.write(np.hstack([r, values + r * self.s]))

    def add(self, a, b):
        left, right = self.read("a", a), self.read("b", b)
        same_rows(len(left), len(right))
        return self.write(left + right)

    def add_plain(self, a, ints):
        return self.add(a, self.write(np.pad(self.rows(ints), ((0, 0), (1, 0)))))

    def accumulator(self, rows):
        return InsecureSum(self, np.zeros((rows, 1 + self.slots), np.uint64))

    def rows(self, ints):
        values = check_ints("ints", ints, self.profile.slot_bits)
        return np.pad(values, (0, -values.size % self.slots)).reshape(-1, self.slots).view(np.uint64)

    def read(self, argument, ciphertexts):
        numbers = check_shape(argument, ciphertexts, self.profile.ciphertext_bytes).view(np.uint64)
        if (numbers[:, 0] != self.name).any():
            raise InvalidCiphertext(argument, "is of another key", "pass ciphertexts of this key")
        return numbers[:, 1:]

    def write(self, numbers):
        return np.hstack([np.full((len(numbers), 1), self.name), numbers]).view(np.uint8)

    def __eq__(self, other):
        return isinstance(other, InsecurePublic) and self.s == other.s


class InsecureSum:
    def __init__(self, public, sums):
        self.public, self.sums = public, sums

    def add(self, ciphertexts, rows=None):
        upload = self.public.read("ciphertexts", ciphertexts)
        self.sums[check_rows(rows, len(self.sums), len(upload))] += upload

    def result(self, rows=None):
        return self.public.write(self.sums[check_rows(rows, len(self.sums))])


class InsecureSecret:
    def __init__(self, public):
        self.public, self.encrypt = public, public.encrypt

    def decrypt(self, ciphertexts, count, *, workers=1):
        numbers = self.public.read("ciphertexts", ciphertexts)
        if rows_of(checks.whole("count", count, low=1), self.public.slots) != len(numbers):
            raise InvalidInput("count", "is not what the rows hold", "pass the number of encrypted values")
        return (numbers[:, 1:] - numbers[:, :1] * self.public.s).view(np.int64).ravel()[:count]

    def __repr__(self):
        return "InsecureSecret(<hidden>)"

    def __reduce_ex__(self, protocol):
        raise TypeError("an InsecureSecret cannot be pickled or copied")


PUBLIC = PublicScheme(InsecurePublic, lambda key: {"s": f"{key.s:x}"}, lambda f, p: InsecurePublic(int(f["s"], 16), p))
SECRET = SecretScheme(
    InsecureSecret,
    lambda profile: InsecureSecret(InsecurePublic(secrets.randbits(64) | 1, profile)),
    lambda key: key.public.s.tobytes(),
    lambda secret, public: InsecureSecret(InsecurePublic(int.from_bytes(secret, "little"), public.profile)),
)


@pytest.fixture(scope="class")
def _toy():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROFILES, TOY.name, TOY)
        patch.setitem(SCHEMES, TOY.scheme, PUBLIC)
        patch.setitem(SECRET_SCHEMES, TOY.scheme, SECRET)
        yield


@pytest.fixture(scope="class")
def keys(_toy):
    return generate_keypair("toy")


@pytest.mark.usefixtures("_toy")
class TestToy(SchemeContract):
    def test_its_keys_are_kept_in_files(self, keys, tmp_path):
        public, secret = keys
        write_secret(tmp_path / "secret.json", secret, "correct horse")
        write_public(tmp_path / "public.json", public)
        assert read_public(tmp_path / "public.json") == read_public(tmp_path / "secret.json") == public
        loaded = read_secret(tmp_path / "secret.json", "correct horse")
        assert loaded.decrypt(public.encrypt([5, -6]), 2).tolist() == [5, -6]

    @pytest.mark.parametrize("settings", [{}, {"policy": "full"}, {"key_mode": "shared-key"}], ids=str)
    def test_a_whole_run_gives_the_model_of_a_plaintext_run(self, settings, tmp_path):
        small = {"clients": 6, "partition": "categories:2", "rounds": 2, "profile": "toy", "workers": 2}
        toy, plain = (
            run_local(make_config({**small, **more}), RunFolder(tmp_path / name))
            for name, more in (("toy", settings), ("plain", {"policy": "plaintext"}))
        )
        assert toy.model_sha256 == plain.model_sha256
        assert any((record.encrypted_share or 0) > 0 for record in toy.played)


def test_the_toy_is_gone_afterwards():
    assert TOY.name not in PROFILES
    assert TOY.scheme not in {**SCHEMES, **SECRET_SCHEMES}
