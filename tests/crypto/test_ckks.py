from __future__ import annotations

import importlib
import struct

import numpy as np
import pytest

from sensecrypt import InvalidCiphertext, InvalidInput, InvalidKey, MissingExtra, generate_keypair
from sensecrypt.crypto.ckks import public as ckks
from sensecrypt.crypto.ckks.public import ERROR_BOUND, CkksPublicKey
from sensecrypt.crypto.ckks.secret import CkksSecretKey
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


def context(degree=8192, bits=(60, 60), scheme="CKKS", public_key=True, secret_key=False):
    ts = ckks.tenseal()
    plain = 1032193 if scheme == "BFV" else None
    made = ts.context(ts.SCHEME_TYPE[scheme], degree, plain_modulus=plain, coeff_mod_bit_sizes=list(bits))
    return made.serialize(
        save_public_key=public_key, save_secret_key=secret_key, save_galois_keys=False, save_relin_keys=False
    )


@pytest.mark.parametrize(
    "other",
    [
        {"degree": 16384},
        {"degree": 4096, "bits": (40, 40)},
        {"bits": (40, 40)},
        {"bits": (50, 60)},
        {"bits": (60, 50)},
        {"bits": (30, 30, 60)},
        {"scheme": "BFV"},
        {"public_key": False},
    ],
    ids=str,
)
def test_a_context_of_other_parameters_is_refused(other):
    assert CkksPublicKey(context())
    assert CkksSecretKey(context(secret_key=True))
    with pytest.raises(InvalidKey, match=r"other parameters|no public key"):
        CkksPublicKey(context(**other))
    with pytest.raises(InvalidKey, match=r"other parameters|no public key"):
        CkksSecretKey(context(**other, secret_key=True))


def serialised(ciphertexts):
    return ciphertexts[0, 4 : 4 + int.from_bytes(ciphertexts[0, :4].tobytes(), "little")].tobytes()


def upload(data):
    """A row as `write` makes it, of whatever bytes."""
    row = np.zeros((1, keypair("ckks-8192")[0].profile.ciphertext_bytes), dtype=np.uint8)
    framed = len(data).to_bytes(4, "little") + data
    row[0, : len(framed)] = np.frombuffer(framed, dtype=np.uint8)
    return row


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def protobuf(*, sizes=(4096,), ciphertext=None, scale=2.0**26):
    packed = b"".join(map(varint, sizes))
    field = b"" if ciphertext is None else b"\x12" + varint(len(ciphertext)) + ciphertext
    return b"\x0a" + varint(len(packed)) + packed + field + b"\x19" + struct.pack("<d", scale)


def serialize_bytes(*, size=2, scale=2.0**26, ntt=True, last=1):
    """A ciphertext as SEAL 4 saves it, uncompressed; `last` fills its last polynomial, the others are zero."""

    def framed(body):
        return bytes.fromhex("5ea1100403000000") + struct.pack("<Q", 16 + len(body)) + body

    public = keypair("ckks-8192")[0]
    parameters = struct.pack("<4Q", *public.parse("a", public.encrypt([0]))[0].ciphertext()[0].parms_id())
    polynomials = np.zeros((size, 8192), dtype="<u8")
    polynomials[-1] = last
    array = framed(struct.pack("<Q", polynomials.size) + polynomials.tobytes())
    return framed(parameters + struct.pack("<?QQQdQ", ntt, size, 8192, 1, scale, 1) + array)


def size_three(tmp_path):
    """Three polynomials: fits a row only as SEAL compresses it."""
    public = keypair("ckks-8192")[0]
    ciphertext = public.parse("a", public.encrypt([1]))[0].ciphertext()[0]
    ciphertext.resize(3)
    ciphertext.save(str(tmp_path / "ciphertext"))
    return (tmp_path / "ciphertext").read_bytes()


def test_the_forger_of_these_tests_makes_what_passes():
    public, secret = keypair("ckks-8192")
    good = public.encrypt([1, 2])
    assert protobuf(ciphertext=serialised(good)[8:-9]) == serialised(good)
    total = public.add(good, upload(protobuf(ciphertext=serialize_bytes())))
    assert secret.decrypt(total, 2).tolist() == [1, 2]


FORGED = {
    "no ciphertext": lambda _: protobuf(),
    "empty ciphertext": lambda _: protobuf(ciphertext=b""),
    "three polynomials": lambda path: protobuf(ciphertext=size_three(path)),
    "transparent": lambda _: protobuf(ciphertext=serialize_bytes(last=0)),
    "not in NTT form": lambda _: protobuf(ciphertext=serialize_bytes(ntt=False)),
    "another scale": lambda _: protobuf(ciphertext=serialize_bytes(scale=2.0**20)),
    "another scale outside": lambda _: protobuf(ciphertext=serialize_bytes(), scale=2.0**20),
    "two sizes": lambda _: protobuf(sizes=(2000, 2096), ciphertext=serialize_bytes()),
    "sizes that wrap": lambda _: protobuf(sizes=(2**64 - 1, 4097), ciphertext=serialize_bytes()),
    "an unknown field": lambda _: protobuf(ciphertext=serialize_bytes()) + b"\x20\x00",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_ciphertexts_are_refused_before_they_are_used(forge, tmp_path):
    public, secret = keypair("ckks-8192")
    good, bad = public.encrypt([1]), upload(forge(tmp_path))
    accumulator = public.accumulator(1)
    for use in (
        lambda: public.parse("a", bad),  # first, because what follows may end the process
        lambda: public.add(good, bad),
        lambda: public.add(bad, good),
        lambda: public.add_plain(bad, [1]),
        lambda: accumulator.add(bad),
        lambda: secret.decrypt(bad, public.slots),
    ):
        with pytest.raises(InvalidCiphertext, match="no ciphertext of this key in row 0"):
            use()


@pytest.mark.parametrize("case", ["another scale", "negated"])
def test_a_row_that_cannot_be_added_changes_no_other_row(case):
    public, secret = keypair("ckks-8192")
    good = public.encrypt(np.ones(2 * public.slots, dtype=np.int64))
    bad = good.copy()
    if case == "negated":  # well-formed, but its sum with the original is transparent
        bad[1] = public.write([public.parse("a", good[1:])[0].neg()])
    else:
        bad[1] = upload(protobuf(ciphertext=serialize_bytes(scale=2.0**20)))
    accumulator = public.accumulator(2)
    accumulator.add(good)
    with pytest.raises(InvalidCiphertext):
        accumulator.add(bad)
    with pytest.raises(InvalidCiphertext):
        public.add(good, bad)
    assert (secret.decrypt(accumulator.result(), 2 * public.slots) == 1).all()


def test_what_is_too_long_for_its_row_is_not_written():
    public, _ = keypair("ckks-8192")
    vector = type("Vector", (), {"serialize": lambda self: bytes(public.profile.ciphertext_bytes - 3)})()
    with pytest.raises(InvalidCiphertext, match="too long"):
        public.write([vector])


def test_the_ends_of_the_range_are_legal_and_what_lies_beyond_is_not():
    public, secret = keypair("ckks-8192")
    values = np.tile([-(2**31), 2**31 - 1], public.slots // 2)
    encrypted = public.encrypt(values)
    assert np.array_equal(secret.decrypt(encrypted, public.slots), values)
    for step in (-1, 1):
        with pytest.raises(InvalidCiphertext, match="32 bits"):
            secret.decrypt(public.add_plain(encrypted, np.full(public.slots, step)), public.slots)


def test_unused_slots_must_be_zero():
    public, secret = keypair("ckks-8192")
    encrypted = public.encrypt([1, 2, 0])
    assert secret.decrypt(encrypted, 2).tolist() == [1, 2]
    with pytest.raises(InvalidCiphertext, match="count"):
        secret.decrypt(encrypted, 1)


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
    with pytest.raises(MissingExtra, match=r'pip install "sensecrypt\[ckks\]"'):
        generate_keypair("ckks-8192")
    assert importlib.import_module("tenseal")
