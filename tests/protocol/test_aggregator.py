"""Weights that the aggregator multiplies in: FedAvg as the paper writes it, exact to the last integer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sensecrypt import Mask
from sensecrypt.errors import InvalidInput, Rejected, ValueDoesNotFit
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer, SharedKeyClients
from sensecrypt.protocol.messages import Aggregate, Upload
from sensecrypt.protocol.protection import model_format, protect_model, protect_sensitivity
from sensecrypt.protocol.round import Round, describe_round
from sensecrypt.protocol.updates import moved_after
from tests.crypto.conftest import keypair
from tests.protocol.test_round import CLIENTS, SIZE, masks_of, models

SAMPLES = (311, 502, 87, 1200)
FEW = (1, 2, 3, 4)  # 32-bit slots have room for few samples
LAYOUTS = ["plaintext", "full", "blocks", "prefix"]


def a_round(profile="insecure-test", samples=FEW, *, by="server", purpose="model", size=SIZE, number=0) -> Round:
    weights = {client: own / sum(samples) for client, own in enumerate(samples)}
    factors = dict(enumerate(samples)) if by == "server" else None
    return Round("test", number, 0, purpose, size, get_profile(profile), weights, factors=factors)


class Cluster:
    """One cluster whose aggregator weighs."""

    def __init__(self, round_: Round, server=KeyServer):
        self.public, secret = keypair(round_.profile.name)
        self.round, self.server = round_, server(secret)
        self.models = models(round_.size)

    def protect(self, masks):
        seed = self.server.tag_seed(self.round)
        return [
            protect_model(model, mask, self.round, client=client, key=self.public, seed=seed, blinded=False)
            for client, (model, mask) in enumerate(zip(self.models, masks, strict=True))
        ]

    def collect(self, masks, arrival=range(CLIENTS)) -> RoundSum:
        total, protected = RoundSum(self.round, self.public), self.protect(masks)
        for client in arrival:
            total.add(protected[client].upload, sender=client)
            self.server.take_tag(protected[client].tag, self.round, sender=client)
        return total

    def release(self, aggregate: Aggregate):
        return self.server.release(aggregate.to_bytes(self.round), self.round)

    def run(self, masks, arrival=range(CLIENTS)) -> np.ndarray:
        released = self.release(self.collect(masks, arrival).close())
        return moved_after(None, released, self.round)[0]


def expected(round_: Round, contributors=range(CLIENTS)) -> bytes:
    """Σ n_i · rint(w_i · 2^24) in whole numbers, divided once."""
    encoded = np.rint(models(round_.size).astype(np.float64) * 2**24).astype(np.int64)
    total = sum(round_.factors[client] * encoded[client] for client in contributors)
    divisor = sum(round_.factors[client] for client in contributors)
    return (np.ldexp(total.astype(np.float64), -24) / divisor).astype(np.float32).tobytes()


@pytest.mark.parametrize("server", [KeyServer, SharedKeyClients])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("profile", "samples"), [("insecure-test", FEW), ("paillier-2048-slot64", SAMPLES)])
def test_the_model_is_the_same_whatever_is_encrypted(layout, profile, samples, server):
    round_ = a_round(profile, samples)
    assert Cluster(round_, server).run(masks_of(layout, round_, None)).tobytes() == expected(round_)


def test_individual_masks_under_scalar_encryption_give_that_model_too():
    rng = np.random.default_rng(2)
    round_ = a_round("paillier-2048-scalar", SAMPLES)
    masks = [Mask.from_array(rng.random(SIZE) < 0.1) for _ in range(CLIENTS)]
    assert Cluster(round_).run(masks).tobytes() == expected(round_)


@given(st.permutations(range(CLIENTS)), st.integers(3, CLIENTS))
@settings(max_examples=10)
def test_whoever_is_missing_is_divided_out(arrival, many):
    round_ = a_round()
    got = Cluster(round_).run(masks_of("blocks", round_, None), arrival[:many])
    assert got.tobytes() == expected(round_, arrival[:many])


def test_it_is_the_clients_weighting_within_rounding():
    ours, theirs = (
        Cluster(a_round("paillier-2048-slot64", SAMPLES, by=by)).run(
            masks_of("blocks", a_round("paillier-2048-slot64", SAMPLES), None)
        )
        for by in ("server", "client")
    )
    assert np.abs(ours - theirs).max() <= (CLIENTS + 1) * 2.0**-25
    assert not np.array_equal(ours, np.zeros_like(ours))


def test_sensitivities_are_weighted_too():
    round_ = a_round("paillier-2048-slot64", SAMPLES, purpose="sensitivity")
    cluster, total = Cluster(round_), RoundSum(round_, keypair("paillier-2048-slot64")[0])
    gains = np.abs(models())
    for client, own in enumerate(gains):
        seed = cluster.server.tag_seed(round_)
        protected = protect_sensitivity(own, round_, client=client, key=cluster.public, seed=seed)
        total.add(protected.upload, sender=client)
        cluster.server.take_tag(protected.tag, round_, sender=client)
    order = cluster.server.set_order(round_, cluster.release(total.close()))
    mean = np.array(SAMPLES) @ (gains / gains.max(axis=1, keepdims=True))
    assert np.array_equal(order, np.argsort(-mean, kind="stable"))


def test_plain_values_are_added_into_the_ciphertexts_and_the_aggregate_is_shorter():
    masks = masks_of("blocks", a_round(), None)
    sizes = {}
    for by in ("client", "server"):
        cluster = Cluster(a_round(by=by))
        aggregate = cluster.collect(masks).close()
        assert aggregate.plain.size == SIZE - aggregate.common.count
        sizes[by] = len(aggregate.to_bytes(cluster.round))
        if by == "server":
            assert aggregate.common == aggregate.mask
            decrypted = keypair("insecure-test")[1].decrypt(aggregate.ciphertexts, aggregate.mask.count)
            encoded = np.rint(models().astype(np.float64) * 2**24).astype(np.int64)
            assert np.array_equal(decrypted, (np.array(FEW) @ encoded)[aggregate.mask.to_array()])
    assert sizes["server"] < sizes["client"]


def test_sums_of_parts_add_up():
    cluster = Cluster(a_round())
    masks = masks_of("blocks", cluster.round, None)
    first, second = cluster.collect(masks, [0, 2]), cluster.collect(masks, [])
    for client, protected in enumerate(cluster.protect(masks)):
        if client in (1, 3):
            second.add(protected.upload, sender=client)
            cluster.server.take_tag(protected.tag, cluster.round, sender=client)
    first.absorb(second)
    released = cluster.release(first.close())
    assert moved_after(None, released, cluster.round)[0].tobytes() == expected(cluster.round)


class TestWhoeverCheats:
    def test_an_aggregator_with_weights_of_its_own_is_noticed(self):
        cluster = Cluster(a_round())
        masks = masks_of("blocks", cluster.round, None)
        other = a_round(samples=(2, 2, 3, 3))
        total = RoundSum(other, cluster.public)
        for client, protected in enumerate(cluster.protect(masks)):
            total.add(protected.upload, sender=client)
            cluster.server.take_tag(protected.tag, cluster.round, sender=client)
        with pytest.raises(Rejected, match="does not match"):
            cluster.release(total.close())

    @pytest.mark.parametrize("part", ["ciphertexts", "plain"])
    def test_a_changed_sum_is_noticed(self, part):
        cluster = Cluster(a_round())
        aggregate = cluster.collect(masks_of("blocks", cluster.round, None)).close()
        changed = aggregate.plain + 1
        if part == "ciphertexts":
            changed = cluster.public.add_plain(aggregate.ciphertexts, [1] * len(aggregate.ciphertexts) * 15)
        with pytest.raises(Rejected, match="does not match"):
            cluster.release(replace(aggregate, **{part: changed}))

    def test_plain_sums_beside_ciphertexts_are_refused(self):
        cluster = Cluster(a_round())
        aggregate = cluster.collect(masks_of("blocks", cluster.round, None)).close()
        nothing = Mask.prefix(0, size=SIZE, block=cluster.round.block)
        beside = replace(aggregate, common=nothing, plain=np.zeros(SIZE, dtype=np.int64))
        with pytest.raises(Rejected, match="beside"):
            cluster.release(beside)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_plain_values_that_would_wrap_are_rejected_and_change_nothing(self, sign):
        cluster = Cluster(a_round("paillier-2048-slot64", SAMPLES))
        masks = masks_of("plaintext", cluster.round, None)
        total, most = RoundSum(cluster.round, cluster.public), (2**63 - 1) // sum(SAMPLES)
        data = cluster.protect(masks)[0].upload
        honest = Upload.from_bytes(data, cluster.round)
        for large in (most + 1, 2**63 - 1):
            plain = honest.plain.copy()
            plain[3] = sign * large
            with pytest.raises(Rejected, match="too large"):
                total.add(replace(honest, plain=plain).to_bytes(cluster.round), sender=0)
        assert total.contributors == ()
        total.add(replace(honest, plain=np.full(SIZE, sign * most)).to_bytes(cluster.round), sender=0)
        assert total.close().plain.tolist() == [sign * most * SAMPLES[0]] * SIZE

    def test_an_upload_brings_no_weight(self):
        """Multiplied is by the round's factors: the bytes of an upload name none."""
        cluster = Cluster(a_round())
        protected = cluster.protect(masks_of("plaintext", cluster.round, None))
        upload = Upload.from_bytes(protected[3].upload, cluster.round)
        total = RoundSum(cluster.round, cluster.public)
        total.add(replace(upload, client=0).to_bytes(cluster.round), sender=0)
        assert np.array_equal(total.close().plain, FEW[0] * upload.plain)


class TestRoom:
    @given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 5000), min_size=2, max_size=6))
    @settings(max_examples=30)
    def test_what_every_client_may_send_fits_its_slot_when_it_is_summed(self, seed, samples):
        round_ = a_round("paillier-2048-slot64", tuple(samples), size=8)
        form, signs = model_format(round_), np.random.default_rng(seed).choice([-1, 1], 8)
        values = form.encode(signs * form.largest, round_.share(0))
        total = sum(samples) * int(np.abs(values).max())
        assert total <= 2**63 - 1

    def test_a_model_too_large_for_the_number_of_samples_is_an_error(self):
        round_ = a_round(samples=(1000, 1000, 1000, 1000))
        mask = Mask.prefix(0, size=SIZE, block=round_.block)
        with pytest.raises(ValueDoesNotFit):
            Cluster(round_).protect([mask] * CLIENTS)

    def test_so_is_one_whose_sum_no_check_sum_could_prove(self):
        round_ = a_round("paillier-2048-slot64", SAMPLES)
        mask = Mask.prefix(0, size=SIZE, block=round_.block)
        for limit, error in ((0.99, None), (1.01, ValueDoesNotFit)):
            model = np.full(SIZE, limit * 2.0**60 / 2**24 / sum(SAMPLES))
            arguments = {"client": 0, "key": None, "seed": b"s", "blinded": False}
            if error is None:
                protect_model(model, mask, round_, **arguments)
            else:
                with pytest.raises(error, match="tagged"):
                    protect_model(model, mask, round_, **arguments)


class TestRefusals:
    def test_a_scheme_that_does_not_multiply(self):
        with pytest.raises(InvalidInput, match="cannot be multiplied"):
            RoundSum(a_round("ckks-8192"), keypair("ckks-8192")[0])

    def test_a_blinded_rest(self):
        round_ = a_round()
        mask = Mask.prefix(0, size=SIZE, block=round_.block)
        with pytest.raises(InvalidInput, match="aggregator multiplies"):
            protect_model(models()[0], mask, round_, client=0, key=keypair("insecure-test")[0], seed=b"s", blinded=True)

    def test_a_fleets_message(self):
        with pytest.raises(InvalidInput, match="fleet"):
            describe_round(a_round())

    @pytest.mark.parametrize(
        "factors", [{0: 1, 1: 2, 2: 3}, {0: 2, 1: 2, 2: 3, 3: 3}, {0: 0, 1: 2, 2: 3, 3: 4}, {0: 1.0, 1: 2, 2: 3, 3: 4}]
    )
    def test_factors_that_are_not_the_weights(self, factors):
        with pytest.raises(InvalidInput) as error:
            replace(a_round(), factors=factors)
        assert error.value.argument == "factors"
