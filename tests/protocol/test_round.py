"""Whole rounds, in process: whatever is encrypted, and however, the model is the same to the byte."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sensecrypt import Mask
from sensecrypt.errors import InvalidInput, Rejected, ValueDoesNotFit
from sensecrypt.profiles import get_profile
from sensecrypt.protocol import tags
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer, decrypt_aggregate
from sensecrypt.protocol.messages import Aggregate, Tag, Upload
from sensecrypt.protocol.protection import model_format, protect_model, protect_sensitivity
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import PRIME, TagOffset, mac_tag
from sensecrypt.protocol.updates import moved_after
from tests.crypto.conftest import keypair

SIZE, CLIENTS = 100, 4


def a_round(profile: str, *, number: int = 0, purpose: str = "model", size: int = SIZE) -> Round:
    weights = {client: (client + 1) / 10 for client in range(CLIENTS)}
    return Round("test", number, 0, purpose, size, get_profile(profile), weights)


def models(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(5).normal(0, 0.5, (CLIENTS, size)).astype(np.float32)


class Cluster:
    """One cluster with its aggregator and key server."""

    def __init__(self, profile: str = "insecure-test", size: int = SIZE, *, blinded: bool = False):
        self.blinded = blinded
        self.public, self.secret = keypair(profile)
        self.round = a_round(profile, size=size)
        self.server = KeyServer(self.secret, rules=ReleaseRules(min_contributors=2))
        self.models = models(size)

    def establish_order(self, sensitivities: np.ndarray) -> np.ndarray:
        round_ = a_round(self.round.profile.name, purpose="sensitivity", size=self.round.size)
        total = RoundSum(round_, self.public)
        for client, gains in enumerate(sensitivities):
            seed = self.server.tag_seed(round_)
            protected = protect_sensitivity(gains, round_, client=client, key=self.public, seed=seed)
            total.add(protected.upload, sender=client)
            self.server.take_tag(protected.tag, round_, sender=client)
        return self.server.set_order(round_, self.server.release(total.close().to_bytes(round_), round_))

    def protect(self, masks: list[Mask], *, key=None):
        seed = self.server.tag_seed(self.round)
        return [
            protect_model(
                model, mask, self.round, client=client, key=key or self.public, seed=seed, blinded=self.blinded
            )
            for client, (model, mask) in enumerate(zip(self.models, masks, strict=True))
        ]

    def run(self, masks: list[Mask], *, arrival=range(CLIENTS), key=None) -> bytes:
        total = RoundSum(self.round, self.public)
        protected = self.protect(masks, key=key)
        for client in arrival:
            total.add(protected[client].upload, sender=client)
            self.server.take_tag(protected[client].tag, self.round, sender=client)
        released = self.server.release(total.close().to_bytes(self.round), self.round)
        return moved_after(None, released, self.round)[0].tobytes()


def masks_of(layout: str, round_: Round, order: np.ndarray | None) -> list[Mask]:
    size, block, blocks = round_.size, round_.block, round_.blocks
    rng = np.random.default_rng(1)
    if layout == "plaintext":
        return [Mask.prefix(0, size=size, block=block)] * CLIENTS
    if layout == "full":
        return [Mask.prefix(blocks, size=size, block=block)] * CLIENTS
    if layout == "blocks":
        nobody = np.arange(blocks) == 2  # one block that stays plain
        return [Mask((rng.random(blocks) < 0.5) & ~nobody, size, block) for _ in range(CLIENTS)]
    return [Mask.prefix(blocks * (k + 1) // CLIENTS, size=size, block=block, order=order) for k in range(CLIENTS)]


@pytest.fixture(scope="module")
def expected() -> bytes:
    return Cluster().run(masks_of("plaintext", a_round("insecure-test"), None))


@pytest.mark.parametrize("blinded", [False, True])
@pytest.mark.parametrize("layout", ["plaintext", "full", "blocks", "prefix"])
@pytest.mark.parametrize(
    "profile",
    ["insecure-test", "paillier-2048", "paillier-2048-short", "paillier-3072", "ckks-8192", "ring-2048", "ring-2048x4"],
)
def test_the_model_is_the_same_whatever_is_encrypted(layout, profile, blinded, expected):
    cluster = Cluster(profile, blinded=blinded)
    order = cluster.establish_order(np.abs(models())) if layout == "prefix" else None
    assert cluster.run(masks_of(layout, cluster.round, order)) == expected


@pytest.mark.parametrize("blinded", [False, True])
def test_individual_masks_under_scalar_encryption_give_that_model_too(blinded, expected):
    rng = np.random.default_rng(2)
    masks = [Mask.from_array(rng.random(SIZE) < 0.1) for _ in range(CLIENTS)]
    assert Cluster("paillier-2048-scalar", blinded=blinded).run(masks) == expected


@given(st.permutations(range(CLIENTS)))
@settings(max_examples=10)
def test_arrival_order_and_who_encrypts_do_not_matter(arrival):
    reference = Cluster()
    blocks = masks_of("blocks", reference.round, None)
    assert reference.run(blocks) == Cluster().run(blocks, arrival=arrival, key=reference.secret)


def test_the_model_is_the_weighted_mean(expected):
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    assert np.abs(np.frombuffer(expected, dtype=np.float32) - weights @ models()).max() < 1e-6


def test_clients_that_hold_the_key_open_the_same_sum(expected):
    cluster = Cluster()
    total = RoundSum(cluster.round, cluster.public)
    for client, protected in enumerate(cluster.protect(masks_of("blocks", cluster.round, None))):
        total.add(protected.upload, sender=client)
    message = Aggregate.from_bytes(total.close().to_bytes(cluster.round), cluster.round)
    _, values, *_ = decrypt_aggregate(message, cluster.round, cluster.secret, None)
    assert model_format(cluster.round).decode(values, 1.0).astype(np.float32).tobytes() == expected


def test_whoever_is_missing_is_divided_out():
    cluster = Cluster()
    got = np.frombuffer(cluster.run(masks_of("full", cluster.round, None), arrival=[1, 3]), dtype=np.float32)
    assert np.abs(got - (0.2 * models()[1] + 0.4 * models()[3]) / 0.6).max() < 1e-6


def test_the_order_is_descending_mean_sensitivity_and_stays_hidden_from_the_aggregator():
    cluster = Cluster()
    gains = np.abs(np.random.default_rng(8).normal(size=(CLIENTS, SIZE)))
    order = cluster.establish_order(gains)
    mean = np.array([0.1, 0.2, 0.3, 0.4]) @ (gains / gains.max(axis=1, keepdims=True))
    assert order.tolist() == np.argsort(-mean, kind="stable").tolist()
    upload = cluster.protect(masks_of("prefix", cluster.round, order))[0].upload
    assert Upload.from_bytes(upload, cluster.round).mask.order is None


class TestTags:
    """What a wrong aggregator could send to the key server."""

    @pytest.fixture(params=[False, True], ids=["plain", "blinded"])
    def cluster(self, request):
        return Cluster(blinded=request.param)

    @pytest.fixture
    def protected(self, cluster):
        protected = cluster.protect(masks_of("blocks", cluster.round, None))
        for client, each in enumerate(protected):
            cluster.server.take_tag(each.tag, cluster.round, sender=client)
        return protected

    def total(self, cluster, protected, clients) -> Aggregate:
        total = RoundSum(cluster.round, cluster.public)
        for client in clients:
            total.add(protected[client].upload, sender=client)
        return total.close()

    def refused(self, cluster, aggregate: Aggregate, match: str) -> None:
        with pytest.raises(Rejected, match=match):
            cluster.server.release(aggregate.to_bytes(cluster.round), cluster.round)

    def test_the_true_sum_opens_once(self, cluster, protected):
        aggregate = self.total(cluster, protected, range(CLIENTS))
        assert cluster.server.release(aggregate.to_bytes(cluster.round), cluster.round).weight == pytest.approx(1.0)
        self.refused(cluster, aggregate, "decrypted already")

    def test_a_dropped_upload(self, cluster, protected):
        dropped = self.total(cluster, protected, [0, 1, 2])
        self.refused(cluster, replace(dropped, contributors=(0, 1, 2, 3)), "tags")

    def test_a_doubled_upload(self, cluster, protected):
        whole, extra = self.total(cluster, protected, range(CLIENTS)), self.total(cluster, protected, [2])
        plain = whole.plain + self.plain_part(cluster, extra, whole)
        self.refused(cluster, replace(whole, plain=plain), "tags")
        self.refused(cluster, replace(whole, contributors=(0, 1, 2, 2)), "twice")

    def plain_part(self, cluster, extra: Aggregate, whole: Aggregate) -> np.ndarray:
        values = np.zeros(SIZE, dtype=np.int64)
        values[~extra.common.to_array()] = extra.plain
        return values[~whole.common.to_array()]

    def test_an_altered_plain_value_or_ciphertext(self, cluster, protected):
        whole = self.total(cluster, protected, range(CLIENTS))
        for position in range(0, whole.plain.size, 7):
            plain = whole.plain.copy()
            plain[position] += 1
            self.refused(cluster, replace(whole, plain=plain), "tags")
        shifted = cluster.public.add_plain(whole.ciphertexts, np.eye(1, whole.mask.count, 3, dtype=np.int64)[0])
        self.refused(cluster, replace(whole, ciphertexts=shifted), "tags")

    def test_one_clients_upload_passed_off_as_an_aggregate(self, cluster, protected):
        one = Upload.from_bytes(protected[2].upload, cluster.round)
        sent = (one.mask, one.ciphertexts, one.mask, one.plain, one.tag_offset)
        self.refused(cluster, Aggregate((2,), *sent), "at least 2")
        self.refused(cluster, Aggregate((0, 1, 2, 3), *sent), "tags")

    def test_strangers_and_missing_tags(self, cluster, protected):
        whole = self.total(cluster, protected, range(CLIENTS))
        self.refused(cluster, replace(whole, contributors=(0, 9)), "not a member")
        fresh = Cluster()
        self.refused(fresh, whole, "no tag of client 0")

    def test_tags_are_taken_once_and_from_their_owner(self, cluster, protected):
        for sender, match in ((1, "already"), (2, "not its own")):
            with pytest.raises(Rejected, match=match):
                cluster.server.take_tag(protected[1].tag, cluster.round, sender=sender)

    def test_a_refused_aggregate_does_not_use_up_the_round(self, cluster, protected):
        whole = self.total(cluster, protected, range(CLIENTS))
        self.refused(cluster, replace(whole, plain=whole.plain + 1), "tags")
        assert cluster.server.release(whole.to_bytes(cluster.round), cluster.round)


def coefficient(seed: bytes, place: int) -> int:
    """ρ of one parameter, from one block of AES."""
    key = hashlib.sha256(b"sensecrypt tag v2" + seed).digest()
    aes = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 (one block is what is wanted)
    block, half = aes.update((place // 2).to_bytes(16, "big")), 8 * (place % 2)
    return int.from_bytes(block[half : half + 8], "little") % 2**61


def test_every_parameter_has_a_coefficient_of_its_own_in_chunk_after_chunk():
    values = np.zeros(3 * tags._CHUNK, dtype=np.int64)
    for place in (0, 1, tags._CHUNK - 1, tags._CHUNK, tags._CHUNK + 1, 2 * tags._CHUNK + 3):
        values[:] = 0
        values[place] = 1
        assert mac_tag(values, b"seed") == coefficient(b"seed", place) % PRIME


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30), st.binary(min_size=1, max_size=40))
def test_a_tag_is_the_sum_by_definition(values, seed):
    rho = [coefficient(seed, place) for place in range(len(values))]
    assert mac_tag(np.array(values), seed) == sum(r * v for r, v in zip(rho, values, strict=True)) % PRIME


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_tags_add_up(seed):
    a, b = np.random.default_rng(seed).integers(-(2**31), 2**31, (2, 70_000))
    key = seed.to_bytes(8, "little")
    assert (mac_tag(a, key) + mac_tag(b, key)) % PRIME == mac_tag(a + b, key)


class TestFaults:
    """Whatever a client sends, the sum of the others is untouched."""

    @pytest.fixture(scope="class")
    @classmethod
    def good(cls):
        cluster = Cluster()
        return cluster, cluster.protect(masks_of("blocks", cluster.round, None))

    def bad_messages(self, cluster, protected):
        data = protected[0].upload
        other = Cluster(size=SIZE + 1)
        later = Round("test", 1, 0, "model", SIZE, cluster.round.profile, cluster.round.weights)
        upload = Upload.from_bytes(data, cluster.round)
        forged = upload.ciphertexts.copy()
        forged[0] = 0
        yield b""
        yield b"\xff" * 50
        yield from (data[:length] for length in (7, 8, 30, 300, len(data) - 1))
        yield data + b"\x00"
        yield data.replace(b'"kind":"upload"', b'"kind":"uploae"')
        yield data.replace(b'"version":"1"', b'"version":"2"')
        yield other.protect(masks_of("blocks", other.round, None))[0].upload
        yield upload.to_bytes(later)
        yield replace(upload, client=99).to_bytes(cluster.round)
        yield replace(upload, ciphertexts=forged).to_bytes(cluster.round)
        yield replace(upload, ciphertexts=upload.ciphertexts[:-1]).to_bytes(cluster.round)
        yield replace(upload, plain=upload.plain[1:]).to_bytes(cluster.round)
        yield replace(upload, tag_offset=TagOffset(PRIME, 0)).to_bytes(cluster.round)
        yield protected[0].tag
        yield protected[1].upload  # delivered by client 0

    def test_bad_uploads_are_rejected_and_change_nothing(self, good, expected):
        cluster, protected = good
        total = RoundSum(cluster.round, cluster.public)
        for bad in self.bad_messages(cluster, protected):
            with pytest.raises(Rejected):
                total.add(bad, sender=0)
        for client in range(CLIENTS):
            total.add(protected[client].upload, sender=client)
            with pytest.raises(Rejected, match="already"):
                total.add(protected[client].upload, sender=client)
        message = Aggregate.from_bytes(total.close().to_bytes(cluster.round), cluster.round)
        _, values, *_ = decrypt_aggregate(message, cluster.round, cluster.secret, None)
        assert model_format(cluster.round).decode(values, 1.0).astype(np.float32).tobytes() == expected

    @given(st.data())
    @settings(max_examples=100)
    def test_any_flipped_byte_is_rejected_or_harmless_to_the_protocol(self, good, data):
        cluster, protected = good
        message = bytearray(protected[0].upload)
        position = data.draw(st.integers(0, len(message) - 1))
        message[position] ^= data.draw(st.integers(1, 255))
        total = RoundSum(cluster.round, cluster.public)
        try:
            total.add(bytes(message), sender=0)
        except Rejected:
            return
        total.close()

    def test_an_empty_round_does_not_close(self, good):
        with pytest.raises(Rejected, match="no upload"):
            RoundSum(good[0].round, good[0].public).close()

    def test_bad_tags_and_aggregates(self, good):
        cluster, protected = good
        for read in (Tag.from_bytes, Aggregate.from_bytes):
            for bad in (b"", protected[0].upload, protected[0].tag[:-3]):
                with pytest.raises(Rejected):
                    read(bad, cluster.round)

    def test_a_model_with_nan_or_beyond_the_range_is_named_before_anything_is_sent(self, good):
        cluster, _ = good
        mask = Mask.prefix(0, size=SIZE, block=cluster.round.block)
        for value in (np.nan, np.inf, 1e6):
            broken = np.zeros(SIZE)
            broken[3] = value
            with pytest.raises(InvalidInput, match="weights"):
                protect_model(broken, mask, cluster.round, client=0, key=cluster.public, seed=b"x", blinded=True)
        wrong = Mask.prefix(0, size=SIZE)
        with pytest.raises(InvalidInput, match="mask"):
            protect_model(np.zeros(SIZE), wrong, cluster.round, client=0, key=cluster.public, seed=b"x", blinded=True)


def test_how_many_encrypted_each_block_is_known():
    cluster = Cluster()
    total = RoundSum(cluster.round, cluster.public)
    masks = masks_of("prefix", cluster.round, None)
    for client, protected in enumerate(cluster.protect(masks)):
        total.add(protected.upload, sender=client)
    assert total.encrypted_contributors.tolist() == sum(mask.flags.astype(int) for mask in masks).tolist()


def test_a_round_nobody_could_complete_is_refused():
    for weights in ({}, {0: 0.0}, {0: 0.7, 1: 0.7}):
        with pytest.raises(InvalidInput):
            Round("test", 0, 0, "model", 10, get_profile("insecure-test"), weights)


def test_the_aggregator_loads_no_secret_module():
    code = (
        "import sys, sensecrypt.protocol.aggregator; print(*(m for m in sys.modules if 'secret' in m and 'sense' in m))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


class TestWideSlots:
    """A slot of 64 bits has room for the check sums' prime: whoever adds it to a sum must be noticed."""

    @pytest.fixture(params=["paillier-2048-scalar", "paillier-2048-slot64"])
    def closed(self, request):
        cluster = Cluster(request.param, 6, blinded=True)
        masks = [Mask.prefix(cluster.round.blocks // 2, size=6, block=cluster.round.block)] * CLIENTS
        total = RoundSum(cluster.round, cluster.public)
        for client, protected in enumerate(cluster.protect(masks)):
            total.add(protected.upload, sender=client)
            cluster.server.take_tag(protected.tag, cluster.round, sender=client)
        return cluster, total.close()

    @pytest.mark.slow
    @pytest.mark.parametrize("times", [-4, -1, 1, 3, 4])
    def test_a_multiple_of_the_prime_is_noticed(self, closed, times):
        cluster, aggregate = closed
        if aggregate.mask.blocks:
            more = np.zeros(aggregate.mask.count, dtype=np.int64)
            more[0] = times * PRIME
            altered = replace(aggregate, ciphertexts=cluster.public.add_plain(aggregate.ciphertexts, more))
            with pytest.raises(Rejected, match="does not match the tags"):
                cluster.server.release(altered.to_bytes(cluster.round), cluster.round)
        plain = aggregate.plain.copy()
        plain[0] = (int(plain[0]) + times * PRIME + 2**63) % 2**64 - 2**63
        with pytest.raises(Rejected, match="does not match the tags"):
            cluster.server.release(replace(aggregate, plain=plain).to_bytes(cluster.round), cluster.round)
        released = cluster.server.release(aggregate.to_bytes(cluster.round), cluster.round)
        expected = np.average(cluster.models, axis=0, weights=[0.1, 0.2, 0.3, 0.4])
        assert moved_after(None, released, cluster.round)[0] == pytest.approx(expected, abs=1e-6)

    def test_values_that_nobody_could_sign_for_are_refused_by_the_client(self):
        cluster = Cluster("paillier-2048-slot64", 4)
        weights, mask = np.full(4, 2.0**38), Mask.prefix(0, size=4, block=cluster.round.block)
        with pytest.raises(ValueDoesNotFit, match="too large to be tagged"):
            protect_model(weights, mask, cluster.round, client=3, key=cluster.public, seed=b"s", blinded=False)


def test_a_sum_that_does_not_decrypt_takes_the_same_work_as_one_that_does_not_match(monkeypatch):
    """Else the time would tell which it was, and with it whether a slot overflowed."""
    work, expand = [], tags._coefficients
    monkeypatch.setattr(tags, "_coefficients", lambda *which: work.append(which[2]) or expand(*which))
    cluster = Cluster(blinded=True)
    masks = [Mask.prefix(3, size=SIZE, block=cluster.round.block)] * CLIENTS
    total = RoundSum(cluster.round, cluster.public)
    for client, protected in enumerate(cluster.protect(masks)):
        total.add(protected.upload, sender=client)
        cluster.server.take_tag(protected.tag, cluster.round, sender=client)
    aggregate = total.close()
    half = np.zeros(aggregate.mask.count, dtype=np.int64)
    half[-1] = 2**31 - 1
    over = cluster.public.add_plain(cluster.public.add_plain(aggregate.ciphertexts, half), half)
    for altered in (replace(aggregate, ciphertexts=over), replace(aggregate, plain=aggregate.plain + 1)):
        work.clear()
        with pytest.raises(Rejected, match="does not match the tags"):
            cluster.server.release(altered.to_bytes(cluster.round), cluster.round)
        assert work == [SIZE, SIZE]
