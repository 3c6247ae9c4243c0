"""What is particular to the ring scheme: noise, its bound, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sensecrypt import InvalidCiphertext, InvalidInput, InvalidKey, generate_keypair
from sensecrypt.crypto.ring import public as ring
from sensecrypt.crypto.ring import secret as ring_secret
from sensecrypt.crypto.ring.arithmetic import MODULUS_BITS
from sensecrypt.crypto.ring.packing import packed_bytes
from sensecrypt.crypto.ring.public import HEADER_BYTES, NOISE_BOUND, NOISE_VARIANCE, RingPublicKey
from sensecrypt.crypto.ring.secret import RingSecretKey
from sensecrypt.profiles import PROFILES
from tests.crypto.conftest import keypair

RINGS = [name for name, profile in PROFILES.items() if profile.scheme == "ring"]
SIZE = packed_bytes(2048, MODULUS_BITS)
MAX_SUMMANDS = PROFILES["ring-2048"].max_summands


@pytest.fixture(params=["ring-2048", "ring-2048x4"])
def keys(request):
    return keypair(request.param)


def noise_of(keys, ciphertexts):
    public, secret = keys
    values = np.empty((len(ciphertexts), public.polynomials, public.dimension), np.int64)
    return secret._decrypt_rows(public.checked("c", ciphertexts), values)


def forged(public, *polynomials):
    """A row of any polynomials."""
    words = np.zeros((1, public.polynomials + 1, public.dimension), np.int64)
    for index, polynomial in enumerate(polynomials):
        words[0, index] = polynomial
    row = public.empty(1)
    public.write(words, row)
    return row


@pytest.mark.slow
def test_a_sum_of_as_many_as_are_promised_is_exact_and_its_noise_is_as_stated(keys):
    public, secret = keys
    rng, at_once = np.random.default_rng(5), 100
    total, exact = public.accumulator(1), np.zeros(public.slots, np.int64)
    for _ in range(MAX_SUMMANDS // at_once):
        values = rng.integers(-(2**17), 2**17, (at_once, public.slots))
        exact += values.sum(axis=0)
        for row in public.encrypt(values.ravel()):
            total.add(row[None])
    assert np.array_equal(secret.decrypt(total.result(), public.slots), exact)
    deviation = noise_of(keys, total.result()).std() / np.sqrt(MAX_SUMMANDS)
    assert 0.9 * 169 < deviation < np.sqrt(NOISE_VARIANCE)


def test_what_the_stated_bound_promises():
    """The formula of the docstring, in bits: a coefficient, and one of 2^36."""
    bits = (NOISE_BOUND**2 / (2 * MAX_SUMMANDS * NOISE_VARIANCE)) / np.log(2) - 1
    assert MAX_SUMMANDS >= 10_000
    assert bits > 116
    assert bits - 36 > 80


def test_a_key_has_less_noise_than_the_bound_assumes(keys, monkeypatch):
    public, secret = keys
    s = np.frombuffer(secret.secret_bytes(), np.int8).reshape(public.polynomials, -1)
    b = ring.unpack(np.frombuffer(public.b, np.uint8).reshape(len(s), -1), MODULUS_BITS)
    e = b + ring.product(ring.small_transform(s), ring.split_transform(public.a))
    variances = ring_secret._noise_variances(s, (e << 13) >> 13)
    assert (variances <= NOISE_VARIANCE).all()
    assert (variances > 0.8 * NOISE_VARIANCE).all()
    # What rounding to multiples of 2^t adds is bounded by 4^t / 4 whatever is rounded, and (4^t - 1) / 6 on average.
    squares = np.square(s, dtype=np.float64).sum(axis=1)
    spared = (4**7 / 4 - (4**7 - 1) / 6) + (4 / 4 - (4 - 1) / 6) * squares
    noise = noise_of(keys, public.encrypt(np.arange(50 * public.slots)))
    assert noise.std() == pytest.approx(np.sqrt((variances - spared).mean()), rel=0.02)
    assert abs(noise.mean()) < 5 * noise.std() / np.sqrt(noise.size)


def test_polynomials_with_too_much_noise_are_drawn_again(monkeypatch):
    drawn = []

    def loud_at_first(shape):
        drawn.append(shape)
        return np.full(shape, 21, np.int8) if len(drawn) == 1 else np.ones(shape, np.int8)

    monkeypatch.setattr(ring_secret, "errors", loud_at_first)
    assert ring_secret.generate_ring("ring-2048x4").public.polynomials == 4
    assert drawn == [(4, 2048), (4, 2048)]


def test_a_running_sum_refuses_one_summand_more_than_is_exact(keys, monkeypatch):
    public, secret = keys
    encrypted = public.encrypt(np.ones(2 * public.slots, np.int64))
    total = public.accumulator(2)
    monkeypatch.setattr(total, "_most", 3)
    for _ in range(3):
        total.add(encrypted[:1], np.array([0]))
    total.add(encrypted[1:], np.array([1]))
    with pytest.raises(InvalidInput, match="summand 4 of a row; sums are exact up to 3"):
        total.add(encrypted)
    assert secret.decrypt(total.result(), 2 * public.slots).tolist() == [3] * public.slots + [1] * public.slots


def test_a_sum_with_too_much_noise_is_refused_instead_of_wrong(keys):
    """One ciphertext added to itself: its noise grows as fast as its values."""
    public, secret = keys
    row, values = public.encrypt(np.ones(public.slots, np.int64)), 1
    outcomes = []
    for _ in range(14):
        row, values = public.add(row, row), 2 * values
        try:
            assert (secret.decrypt(row, public.slots) == values).all()
            outcomes.append("exact")
        except InvalidCiphertext:
            outcomes.append("refused")
    assert outcomes[:6] == ["exact"] * 6
    assert outcomes[-1] == "refused"


def test_refusals_do_not_say_where_or_how_much(keys):
    public, secret = keys
    good = public.encrypt(np.ones(3 * public.slots, np.int64))
    messages = set()
    for row, column, size in ((0, 0, 2**18), (2, 5, 2**18), (1, public.dimension - 1, 2**18 - 2**12), (2, 7, -(2**18))):
        disturbance = np.zeros(public.dimension, np.int64)
        disturbance[column] = size
        bad = good.copy()
        bad[row : row + 1] = public.add(good[row : row + 1], forged(public, 0, disturbance))
        with pytest.raises(InvalidCiphertext) as error:
            secret.decrypt(bad, 3 * public.slots)
        messages.add(str(error.value))
    with pytest.raises(InvalidCiphertext) as error:
        secret.decrypt(good, 3 * public.slots - 1)
    messages.add(str(error.value))
    assert len(messages) == 1
    assert not any(character.isdigit() for character in messages.pop())


def test_whoever_sees_forged_ciphertexts_decrypted_has_the_key(keys):
    """Why sums are shown only after their MAC tags have matched: the values of (Δ, 0) are the secret key."""
    public, secret = keys
    one = np.zeros(public.dimension, np.int64)
    one[0] = 2**19
    values = secret.decrypt(forged(public, one), public.slots)
    assert values.astype(np.int8).tobytes() == secret.secret_bytes()


def test_the_noise_of_a_sum_does_not_depend_on_the_values(keys):
    """Encoding is linear: with the same randomness, other values leave the same noise."""
    public, _ = keys
    rng = np.random.default_rng(6)
    shape = (1, public.polynomials, public.dimension)
    u = rng.integers(-1, 2, (1, public.dimension)).astype(np.int8)
    f = rng.integers(-9, 10, (public.polynomials + 1, 1, public.dimension)).astype(np.int8)
    d = rng.integers(0, 2, (public.polynomials + 1, 1, public.dimension)).astype(np.uint8)
    d[1:] = rng.integers(0, 2**7, d[1:].shape)
    noises = []
    for values in (np.zeros(shape, np.int64), rng.integers(-(2**31), 2**31, shape)):
        row = public.empty(1)
        public._encrypt_with(values, u, f, d, row)
        noises.append(noise_of(keys, row))
    assert np.array_equal(*noises)
    assert np.abs(noises[0]).max() > 0


def test_ciphertexts_of_another_key_are_refused_at_once(keys):
    public, secret = keys
    stranger, _ = generate_keypair(public.profile)
    good, foreign = public.encrypt([1]), stranger.encrypt([1])
    total = public.accumulator(1)
    for use in (
        lambda: public.add(good, foreign),
        lambda: public.add_plain(foreign, [1]),
        lambda: total.add(foreign),
        lambda: secret.decrypt(foreign, 1),
    ):
        with pytest.raises(InvalidCiphertext, match="no ciphertext of this key in row 0"):
            use()


def test_with_a_forged_header_they_are_refused_when_decrypted(keys):
    public, secret = keys
    stranger, _ = generate_keypair(public.profile)
    foreign = stranger.encrypt(np.arange(public.slots))
    foreign[:, :HEADER_BYTES] = public.encrypt([0])[:, :HEADER_BYTES]
    with pytest.raises(InvalidCiphertext, match="do not decrypt"):
        secret.decrypt(foreign, public.slots)


def test_unused_slots_must_be_zero(keys):
    public, secret = keys
    encrypted = public.encrypt([1, 2, 0])
    assert secret.decrypt(encrypted, 2).tolist() == [1, 2]
    with pytest.raises(InvalidCiphertext, match="count"):
        secret.decrypt(encrypted, 1)


@pytest.mark.parametrize("count", [1, 2047, 2048, 2049, 3 * 2048, 4 * 2048, 4 * 2048 + 1])
def test_polynomials_without_values_may_be_missing(count):
    public, secret = keypair("ring-2048x4")
    profile, values = public.profile, np.arange(count) - count // 2
    rows = public.add(public.encrypt(values), public.encrypt(values))
    sent = profile.row_bytes((count - 1) % profile.slots + 1)
    rows[-1, sent:] = 0
    assert np.array_equal(secret.decrypt(rows, count), 2 * values)
    if count % profile.slots:
        assert (sent - HEADER_BYTES) * 8 == 2048 * (50 + 44 * -(-(count % profile.slots) // 2048))
    rows[-1, sent - 2048 * 44 // 8 :] = 0  # one that holds a value
    with pytest.raises(InvalidCiphertext):
        secret.decrypt(rows, count)


def test_values_beyond_their_slot_wrap_as_the_contract_warns(keys):
    public, secret = keys
    encrypted = public.encrypt([2**31 - 1, -(2**31)])
    assert secret.decrypt(public.add_plain(encrypted, [1, -1]), 2).tolist() == [-(2**31), 2**31 - 1]


@pytest.mark.parametrize("order", ["F", "strided"])
def test_rows_may_lie_in_memory_as_they_like(keys, order):
    public, secret = keys
    values = np.arange(3 * public.slots)
    encrypted = public.encrypt(values)
    if order == "F":
        other = np.asfortranarray(encrypted)
    else:
        other = np.concatenate([encrypted, encrypted], axis=1)[:, : encrypted.shape[1]]
    other.flags.writeable = False
    total = public.accumulator(3)
    total.add(other)
    total.add(other)
    assert np.array_equal(secret.decrypt(total.result(), values.size), 2 * values)
    assert np.array_equal(secret.decrypt(other, values.size), values)


def test_a_running_sum_of_scattered_rows(keys):
    public, secret = keys
    values = np.arange(5 * public.slots)
    encrypted = public.encrypt(values)
    total = public.accumulator(5)
    total.add(encrypted)
    total.add(encrypted[[0, 3]], np.array([0, 3]))
    expected = values.reshape(5, -1).copy()
    expected[[0, 3]] *= 2
    assert np.array_equal(secret.decrypt(total.result(), values.size), expected.ravel())
    assert np.array_equal(secret.decrypt(total.result(np.array([3])), public.slots), expected[3])


def test_an_empty_sum_has_no_result(keys):
    total = keys[0].accumulator(2)
    with pytest.raises(InvalidInput, match="nothing was added"):
        total.result()
    total.add(keys[0].encrypt([1]), np.array([1]))
    with pytest.raises(InvalidInput, match="nothing was added"):
        total.result()


def test_all_work_is_that_of_the_calling_thread_so_that_it_is_counted(keys, monkeypatch):
    public, secret = keys
    monkeypatch.setattr(ring, "COEFFICIENTS_AT_ONCE", 1)
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    values = np.arange(-public.slots, 2 * public.slots)
    encrypted = public.encrypt(values, workers=3)
    assert np.array_equal(secret.decrypt(encrypted, values.size, workers=3), values)
    bad = encrypted.copy()
    bad[1, HEADER_BYTES + 4 * 2048 :] ^= 255
    with pytest.raises(InvalidCiphertext, match="do not decrypt"):
        secret.decrypt(bad, values.size, workers=3)
    for use in (lambda: public.encrypt([1], workers=0), lambda: secret.decrypt(encrypted, values.size, workers=0)):
        with pytest.raises(InvalidInput, match="workers"):
            use()


class TestKeys:
    def test_public_keys_are_values(self, keys):
        public, _ = keys
        again = RingPublicKey(public.seed, public.b, public.profile)
        assert again == public
        assert hash(again) == hash(public)
        assert again.fingerprint == public.fingerprint
        assert public != "key"
        assert public != generate_keypair(public.profile)[0]
        assert public.profile.name in repr(public)

    @pytest.mark.parametrize(
        ("seed", "b", "profile", "argument"),
        [
            (bytes(31), bytes([1]) * SIZE, "ring-2048", "seed"),
            ("0" * 32, bytes([1]) * SIZE, "ring-2048", "seed"),
            (bytes(32), bytes([1]) * (SIZE - 1), "ring-2048", "b"),
            (bytes(32), bytes([1]) * SIZE, "ring-2048x4", "b"),
            (bytes(32), bytearray([1]) * SIZE, "ring-2048", "b"),
            (bytes(32), bytes(SIZE), "ring-2048", "b"),
            (bytes(32), bytes([1]) * 3 * SIZE + bytes(SIZE), "ring-2048x4", "b"),
            (bytes(32), bytes([1]) * SIZE, "paillier-2048", "profile"),
        ],
        ids=[
            "short-seed",
            "seed-is-text",
            "short-b",
            "b-of-another-profile",
            "b-is-mutable",
            "b-is-zero",
            "last-b-is-zero",
            "another-scheme",
        ],
    )
    def test_malformed_public_keys_are_refused(self, seed, b, profile, argument):
        with pytest.raises(InvalidKey) as error:
            RingPublicKey(seed, b, profile)
        assert error.value.argument == argument

    def test_secret_keys_that_do_not_go_with_the_public_key_are_refused(self, keys):
        public, secret = keys
        s = np.frombuffer(secret.secret_bytes(), np.int8).reshape(public.polynomials, -1)
        assert RingSecretKey(s.copy(), public).public == public
        for wrong in (-s, np.roll(s, 1), np.where(np.arange(s.size).reshape(s.shape) == 0, -128, s).astype(np.int8)):
            with pytest.raises(InvalidKey):
                RingSecretKey(wrong, public)
        for shape in (s[:, :-1], s.astype(np.int64), s[:0]):
            with pytest.raises(InvalidKey, match="not a secret key of this profile"):
                RingSecretKey(shape, public)
        one_off = s.copy()
        one_off[0, 0] = (one_off[0, 0] + 2) % 3 - 1  # another ternary coefficient
        with pytest.raises(InvalidKey, match="does not match"):
            RingSecretKey(one_off, public)

    def test_no_two_keys_share_anything(self):
        (first, one), (second, two) = generate_keypair("ring-2048"), generate_keypair("ring-2048")
        assert first.seed != second.seed
        assert one.secret_bytes() != two.secret_bytes()
