"""A calibrated run differs from the real one in nothing but its clock; budgets follow what devices really did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.coordinator.clusterround import with_cost
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.errors import InvalidCiphertext, InvalidInput, ValueDoesNotFit
from sensecrypt.models import always_encrypt
from sensecrypt.policies import POLICIES
from sensecrypt.profiles import PROFILES
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.envelope import parse_any
from sensecrypt.protocol.keyserver import decrypt_aggregate
from sensecrypt.protocol.protection import model_format, protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.records import Facts, ServerRecord, clients_of, servers_of, to_fields
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.ahead import AheadKey
from sensecrypt.simulation.calibration import measure_cost_model
from sensecrypt.simulation.clock import CostModel
from sensecrypt.simulation.nullcipher import NullCipher
from sensecrypt.transports.local.run import run_local
from sensecrypt.types import Mask
from sensecrypt.worktime import Cost

SMALL = {
    "clients": 6,
    "partition": "categories:2",
    "rounds": 2,
    "profile": "insecure-test",
    "order_refresh": 1,
    "workers": 1,
    "budget": "paper",
    "ratio": 0.2,
}
COST_MODEL = CostModel(encrypt=0.01, add=0.001, decrypt=0.02)
SERVER = {"weighting": "server", "profile": "paillier-2048-slot64", "rest": "plain"}
SEED = b"a seed of sixteen bytes, or more"
WEIGHED = CostModel(encrypt=0.01, add=0.001, decrypt=0.02, multiply=0.004, add_plain=0.002)


def play(path, cost_model=None, **settings):
    return run_local(make_config({**SMALL, **settings}), RunFolder(path), cost_model=cost_model)


class TestRuns:
    @pytest.mark.parametrize(
        "settings",
        [
            *({"policy": policy} for policy in POLICIES),
            {"layout": "blocks"},
            {"layout": "blocks", "policy": "fedml_he"},
            {"key_mode": "shared-key"},
            {"randomness": "ahead"},
            {"profile": "ckks-8192", "layout": "blocks", "ratio": 1.0, "policy": "maskcrypt"},
            {"profile": "ring-2048", "layout": "blocks", "ratio": 0.5, "policy": "maskcrypt"},
            {"profile": "ring-2048x4"},
            {**SERVER, "layout": "blocks"},
            {**SERVER, "layout": "prefix"},
        ],
        ids=str,
    )
    def test_models_masks_and_sizes_are_those_of_the_real_run(self, tmp_path, settings):
        real = play(tmp_path / "real", **settings)
        cost_model = WEIGHED if "weighting" in settings else COST_MODEL
        calibrated = play(tmp_path / "calibrated", crypto="calibrated", cost_model=cost_model, **settings)
        assert [each.tobytes() for each in real.vectors] == [each.tobytes() for each in calibrated.vectors]
        for ours, theirs in zip(map(to_fields, real.log), map(to_fields, calibrated.log), strict=True):
            assert ours.keys() == theirs.keys()
            kept = [key for key in ours if not key.endswith("_seconds") and key != "crypto"]
            assert [ours[key] for key in kept] == [theirs[key] for key in kept]
        assert calibrated.summary()["crypto"] == "calibrated"

    def test_every_ciphertext_is_charged(self, tmp_path):
        result = play(tmp_path / "run", crypto="calibrated", cost_model=COST_MODEL)
        for record in result.played:
            assert record.encrypt_seconds == pytest.approx(COST_MODEL.encrypt * record.encrypted_blocks)
        servers = [record for record in servers_of(result.log) if record.round >= 0]
        for record in servers:
            assert record.decrypted_blocks > 0
            assert record.decrypt_seconds == pytest.approx(COST_MODEL.decrypt * record.decrypted_blocks)
            assert record.add_seconds == pytest.approx(COST_MODEL.add * record.added_blocks)

    def test_what_the_server_multiplies_is_charged_to_it(self, tmp_path):
        settings = {**SERVER, "layout": "blocks", "order_refresh": 9}
        result = play(tmp_path / "run", crypto="calibrated", cost_model=WEIGHED, **settings)
        servers = [record for record in servers_of(result.log) if record.round >= 0]
        encrypted = sum(record.encrypted_blocks for record in result.played)
        assert sum(record.multiplied_blocks for record in servers) == encrypted > 0
        assert sum(record.plain_added_blocks for record in servers) > 0
        for record in servers:
            assert record.multiply_seconds == pytest.approx(WEIGHED.multiply * record.multiplied_blocks)
            assert record.add_plain_seconds == pytest.approx(WEIGHED.add_plain * record.plain_added_blocks)
        with pytest.raises(InvalidInput, match="no cost for operation multiply"):
            result.times(COST_MODEL)

    def test_prices_survive_in_the_runs_folder(self, tmp_path):
        folder = RunFolder(tmp_path)
        for cost_model in (COST_MODEL, WEIGHED):
            folder.save_cost_model(cost_model)
            assert folder.load_cost_model() == cost_model
        folder.write("cost-model.json", b'{"encrypt": 0.01, "add": 0.001, "decrypt": 0.02}')  # as runs had them before
        assert folder.load_cost_model() == COST_MODEL

    def test_a_clock_at_other_prices_is_proportional(self, tmp_path):
        result = play(tmp_path / "run", policy="full", crypto="calibrated", cost_model=CostModel(1.0, 0.0, 0.0))
        ours = sum(time.seconds for time in result.times())
        tenfold = sum(time.seconds for time in result.times(CostModel(10.0, 0.0, 0.0)))
        assert tenfold == pytest.approx(10 * ours, rel=0.01)

    def test_prices_are_measured_where_none_are_given(self, tmp_path):
        result = play(tmp_path / "run", crypto="calibrated")
        assert all(record.encrypt_seconds > 0 for record in result.played)

    def test_clients_that_share_the_key_open_everything_themselves(self, tmp_path):
        result = play(
            tmp_path / "run", crypto="calibrated", cost_model=COST_MODEL, key_mode="shared-key", order_refresh=1
        )
        servers = servers_of(result.log)
        assert servers
        assert not any(record.decrypted_blocks for record in servers)
        for record in (record for record in clients_of(result.log)):
            assert record.decrypted_blocks > 0

    def test_a_ratio_of_no_ciphertext_is_refused_before_anything_is_written(self, tmp_path):
        with pytest.raises(InvalidInput, match="choose at least"):
            play(tmp_path / "run", policy="random", profile="ckks-8192", layout="blocks")
        assert not (tmp_path / "run").exists()


class TestDeadline:
    DEVICES = "4,4,4,4,4,4"
    SLOWER = "4,2,4,4,4,4"

    def shares(self, path, **settings):
        result = play(
            path,
            crypto="calibrated",
            cost_model=COST_MODEL,
            rounds=8,
            budget="deadline",
            partition="iid",
            clustering="none",
            order_refresh=100,
            max_mi=-1,
            cpus=";".join([self.DEVICES] * 5 + [self.SLOWER] * 3),
            server_cpus=104,
            **settings,
        )
        rounds = {time.number: time for time in result.times()}
        shares = {(record.round, record.client): record.encrypted_share for record in result.played}
        return shares, rounds

    def test_a_device_that_halves_its_speed_is_given_less_and_the_round_recovers(self, tmp_path):
        shares, rounds = self.shares(tmp_path / "run", grace=0.2)
        assert shares[4, 1] == pytest.approx(shares[4, 0], abs=0.1)
        assert shares[6, 1] < 0.7 * shares[5, 1]
        assert shares[6, 0] > 0.8 * shares[5, 0]
        assert rounds[5].seconds > 1.5 * rounds[4].seconds
        assert rounds[6].seconds < 1.25 * rounds[4].seconds

    @pytest.mark.parametrize("lost", [None, 2])
    def test_no_block_has_fewer_than_three_contributors_however_short_the_time(self, tmp_path, lost):
        result = run_local(
            make_config(
                {
                    **SMALL,
                    "clients": 12,
                    "rounds": 4,
                    "budget": "deadline",
                    "grace": 0.0,
                    "slack": 0.0,
                    "cpus": "9,7,5,4,2,1",
                }
            ),
            RunFolder(tmp_path / "run"),
            intercept=lambda client, number, data: None if client == lost and number > 1 else data,
        )
        servers = [record for record in servers_of(result.log) if record.round >= 0]
        assert len(servers) >= 4
        assert min(record.encrypted_share for record in result.played) < 1
        lonely = [record.under_covered_blocks for record in servers]
        if lost is None:
            assert not any(lonely)

    def test_a_round_that_makes_a_new_order_encrypts_no_less(self, tmp_path):
        result = play(
            tmp_path / "run",
            crypto="calibrated",
            cost_model=COST_MODEL,
            rounds=7,
            budget="deadline",
            grace=0.2,
            partition="iid",
            clustering="none",
            order_refresh=3,
            max_mi=-1,
            cpus="4",
        )
        shares = {(record.round, record.client): record.encrypted_share for record in result.played}
        assert shares[1, 0] < 0.9
        assert shares[2, 0] > 0.7 * shares[1, 0]

    def test_more_time_is_more_encryption(self, tmp_path):
        little, _ = self.shares(tmp_path / "little", grace=0.1)
        much, _ = self.shares(tmp_path / "much", grace=0.3)
        assert much[3, 0] > 1.5 * little[3, 0]

    def test_the_security_floor_holds_where_the_deadline_leaves_nothing(self, tmp_path):
        result = play(
            tmp_path / "run",
            crypto="calibrated",
            cost_model=CostModel(1e3, 0.0, 0.0),
            budget="deadline",
            grace=0.0,
            slack=0.0,
            rounds=3,
            max_mi=-1,
        )
        for record in result.played:
            assert record.coverage >= 1 - 0.7 * np.exp(-1.3 * record.budget) - 1e-9

    @pytest.mark.parametrize("layout", ["prefix", "blocks"])
    def test_the_classifier_is_encrypted_however_slow_a_device_is(self, tmp_path, layout):
        seen = []
        config = make_config(
            {
                **SMALL,
                "budget": "deadline",
                "grace": 0.0,
                "slack": 0.0,
                "layout": layout,
                "max_mi": -1,
                "C": 1.0,
                "B": 0.0,
            }
        )
        order = {}

        def intercept(client, number, data):
            seen.append((client, number, data))
            return data

        result = run_local(config, RunFolder(tmp_path / layout), intercept=intercept, cost_model=None)
        order = {
            int(name.removeprefix("key-service-order-")): tensor
            for name, tensor in parse_any((tmp_path / layout / "checkpoint.safetensors").read_bytes(), "checkpoint")[
                1
            ].items()
            if name.startswith("key-service-order-")
        }
        assert bool(order) == (layout == "prefix")
        always = always_encrypt(result.build(), 10)
        assert 0 < always.sum() < 0.2 * always.size
        last = [(client, data) for client, number, data in seen if number == config.training.rounds - 1]
        shares = []
        for client, data in last:
            header, tensors = parse_any(data, "upload")
            size, block = always.size, PROFILES["insecure-test"].slots
            if int(header["prefix"]) >= 0:
                mask = Mask.prefix(int(header["prefix"]), size=size, block=block)
            else:
                mask = Mask.from_bits(tensors["mask"].tobytes(), size=size, block=block)
            hidden = Mask(mask.flags, size, block, order.get(result.labels[client])).to_array()
            assert hidden[always].all()
            shares.append(mask.share)
        assert min(shares) < 0.6  # a slow device, as the others are faster

    def test_a_resumed_run_knows_how_fast_its_clients_were(self, tmp_path):
        settings = {"crypto": "calibrated", "budget": "deadline", "grace": 0.1, "max_mi": -1, "clustering": "none"}
        config = make_config({**SMALL, **settings, "rounds": 3, "order_refresh": 100, "cpus": "2"})
        first = RunFolder(tmp_path / "run")

        class Stop(Exception):
            pass

        def stop(number, *_):
            if number == 1:
                raise Stop

        with pytest.raises(Stop):
            run_local(config, first, cost_model=COST_MODEL, on_round=stop)
        result = run_local(config, first, cost_model=COST_MODEL, resume=True)
        last = [record for record in result.played if record.round == 2]
        assert len(last) == 6
        assert all(record.budget < 0.6 for record in last)  # the paper's would give the best device 1


class TestNullCipher:
    @pytest.mark.parametrize(
        "name", ["insecure-test", "paillier-2048", "paillier-2048-scalar", "ckks-8192", "ring-2048"]
    )
    def test_rows_are_as_long_as_ciphertexts_and_sums_exact(self, name):
        profile = PROFILES[name]
        key, rng = NullCipher(profile), np.random.default_rng(0)
        values = rng.integers(-(2**20), 2**20, 2 * profile.slots + 3)
        a, b = key.encrypt(values), key.encrypt(-3 * values)
        assert a.shape == (-(-values.size // profile.slots), profile.ciphertext_bytes)
        total = key.accumulator(len(a))
        total.add(a)
        total.add(b)
        total.add(a[:1], np.array([0]))
        expected = -2 * values
        expected[: profile.slots] += values[: profile.slots]
        assert np.array_equal(key.decrypt(total.result(), values.size), expected)
        assert np.array_equal(key.decrypt(key.add(a, b), values.size), -2 * values)
        assert np.array_equal(key.decrypt(key.add_plain(a, values), values.size), 2 * values)

    @pytest.mark.parametrize("name", ["insecure-test", "paillier-2048-scalar"])
    def test_products_are_exact_and_never_wrap(self, name):
        key = NullCipher(PROFILES[name])
        values = np.array([3, -5, 2**20])
        assert key.decrypt(key.multiply(key.encrypt(values), -7), 3).tolist() == (-7 * values).tolist()
        with pytest.raises(InvalidCiphertext, match="overflows its slot"):
            key.multiply(key.encrypt(values), 2**50)

    def test_what_a_real_key_refuses_it_refuses(self):
        key = NullCipher(PROFILES["insecure-test"])
        with pytest.raises(ValueDoesNotFit):
            key.encrypt([2**40])
        with pytest.raises(InvalidCiphertext):
            key.decrypt(np.zeros((1, 5), dtype=np.uint8), 1)


def make_round(profile="insecure-test", **changes) -> Round:
    members = dict.fromkeys(range(2), 0.5)
    return Round("run", 0, 0, "model", 40, PROFILES[profile], members, **changes)


def protect(round_, key, share=1.0, client=0, **more):
    """Client's upload of 40 values, of which a share is encrypted."""
    blocks = round(share * round_.blocks)
    mask = Mask.prefix(blocks, size=round_.size, block=round_.block)
    values = np.arange(40) / 100
    return protect_model(values, mask, round_, client=client, key=key, seed=SEED, blinded=False, **more)


class TestCosts:
    def test_operations_are_counted_apart_and_returned_with_their_results(self):
        public, secret = generate_keypair("insecure-test")
        round_ = make_round()
        assert round_.blocks == 3
        total = RoundSum(round_, public)
        protected = [protect(round_, public, client=client) for client in range(2)]
        for client, each in enumerate(protected):
            assert each.cost.blocks == {"encrypt": 3}
            assert each.cost.seconds["encrypt"] > 0
            total.add(each.upload, sender=client)
        aggregate = total.close()
        assert total.cost.blocks == {"add": 6}
        *_, cost = decrypt_aggregate(aggregate, round_, secret, None)
        assert cost.blocks == {"decrypt": 3}
        for each in (protected[0].cost, total.cost, cost):
            assert all(seconds > 0 for seconds in each.seconds.values())
            assert each.total_seconds == pytest.approx(sum(each.seconds.values()))
        both = Cost()
        for client, each in enumerate(protected):
            RoundSum(round_, public, cost=both).add(each.upload, sender=client)
        assert both.blocks == {"add": 6}
        assert both.total_seconds == pytest.approx(sum(both.seconds.values()))
        assert protected[1].cost.blocks == {"encrypt": 3}  # counted once, for whoever did it

    def test_adding_two_sums_counts_their_ciphertexts(self):
        public, _ = generate_keypair("insecure-test")
        round_ = make_round()
        parts = [RoundSum(round_, public) for _ in range(2)]
        for client, part in enumerate(parts):
            part.add(protect(round_, public, client=client).upload, sender=client)
        total = RoundSum(round_, public)
        for part in parts:
            total.absorb(part)
        assert total.cost.blocks == {"add": 6}

    def test_multiplying_and_adding_known_numbers_are_operations_of_their_own(self):
        public, _ = generate_keypair("paillier-2048-slot64")
        round_ = make_round("paillier-2048-slot64", factors={0: 5, 1: 5})
        total = RoundSum(round_, public)
        total.add(protect(round_, public, client=0).upload, sender=0)
        total.add(protect(round_, public, share=0.0, client=1).upload, sender=1)
        total.close()
        assert total.cost.blocks == {"multiply": round_.blocks, "add": round_.blocks, "add_plain": round_.blocks}
        assert all(total.cost.seconds[operation] > 0 for operation in total.cost.blocks)
        charged = CostModel(encrypt=1.0, add=1.0, decrypt=1.0, multiply=0.25, add_plain=0.5)
        record = charged.apply(with_cost(ServerRecord(round=0, cluster=0), total.cost, 0.0, multiplied=True))
        assert record.multiply_seconds == 0.25 * round_.blocks
        assert record.add_plain_seconds == 0.5 * round_.blocks

    def test_a_scheme_that_does_not_multiply_has_no_sum_that_does(self):
        public, _ = generate_keypair("ckks-8192")
        with pytest.raises(InvalidInput, match="cannot be multiplied"):
            RoundSum(make_round("ckks-8192", factors={0: 5, 1: 5}), public)

    def test_an_operation_without_a_price_cannot_be_charged(self):
        record = ServerRecord(round=0, cluster=0, multiply_seconds=0.1, multiplied_blocks=1)
        with pytest.raises(InvalidInput, match="no cost for operation multiply"):
            COST_MODEL.apply(record)

    def test_only_what_a_record_tells_of_is_charged(self):
        record = Facts(encrypt_seconds=0.5, encrypted_blocks=3, train_seconds=2.0)
        assert COST_MODEL.apply(record) == replace(record, encrypt_seconds=3 * COST_MODEL.encrypt)

    def test_randomness_made_ahead_is_not_charged(self):
        public, secret = generate_keypair("insecure-test")
        round_ = replace(make_round(), size=3000)
        everything = Mask.prefix(round_.blocks, size=3000, block=round_.block)
        values = np.arange(3000) % 7 / 100
        protected, plain = (
            protect_model(values, everything, round_, client=0, key=key, seed=SEED, blinded=False)
            for key in (AheadKey(public), public)
        )
        cost = protected.cost
        assert cost.blocks == {"encrypt": round_.blocks}
        assert cost.ahead_seconds > cost.seconds["encrypt"] > 0
        assert cost.total_seconds == pytest.approx(cost.ahead_seconds + cost.seconds["encrypt"])
        assert plain.cost.ahead_seconds == 0
        total = RoundSum(round_, public)
        total.add(protected.upload, sender=0)
        _, released, *_ = decrypt_aggregate(total.close(), round_, secret, None)
        assert model_format(round_).decode(released, 0.5) == pytest.approx(values, abs=1e-6)

    def test_randomness_made_ahead_is_used_once(self):
        public, _ = generate_keypair("insecure-test")
        key = AheadKey(public)
        key.make_ahead(3)
        first, second = key.encrypt(np.zeros(40, dtype=np.int64)), key.encrypt(np.zeros(40, dtype=np.int64))
        rows = [row.tobytes() for row in (*first, *second)]
        assert len(set(rows)) == len(rows) == 6

    def test_prices_are_positive_and_decryption_costs_more_than_addition(self):
        cost_model = measure_cost_model("insecure-test")
        assert 0 < cost_model.add < cost_model.encrypt
        assert cost_model.add < cost_model.decrypt
        assert cost_model.multiply > cost_model.add
        assert cost_model.add_plain > 0
        assert measure_cost_model("ckks-8192").multiply is None
