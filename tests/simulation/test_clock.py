"""The device clock against rounds worked by hand, and the laws by which devices change them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.algo.budget import deadline_budgets
from sensecrypt.errors import InvalidInput
from sensecrypt.records import ClientRecord, Facts, ServerRecord
from sensecrypt.simulation.clock import (
    CostModel,
    Pace,
    RoundTime,
    Steps,
    answer_bandwidth,
    pace,
    round_times,
    total_seconds,
)
from sensecrypt.types import Device

MB = 1_000_000
FAST, SLOW = Device(cpus=4, bandwidth=10), Device(cpus=2, bandwidth=5)

CLIENT = {
    "cluster": 0,
    "train_seconds": 8.0,
    "sensitivity_seconds": 3.0,
    "select_seconds": 1.0,
    "protect_seconds": 1.0,
    "encrypt_seconds": 2.0,
    "encrypted_blocks": 20,
    "order_protect_seconds": 0.25,
    "order_encrypt_seconds": 0.75,
    "order_blocks": 5,
    "decrypt_seconds": 4.0,
    "decrypted_blocks": 10,
    "bytes_up": 20 * MB,
    "bytes_down": 10 * MB,
}
SERVER = {
    "cluster": 0,
    "server": True,
    "aggregate_seconds": 1.0,
    "add_seconds": 2.0,
    "added_blocks": 40,
    "release_seconds": 3.0,
    "decrypt_seconds": 6.0,
    "decrypted_blocks": 30,
}
WORK = ("train_seconds", "sensitivity_seconds", "select_seconds", "protect_seconds", "encrypt_seconds")


def client(number: int, index: int, **change):
    return ClientRecord(**{**CLIENT, "round": number, "client": index, **change})


def server(number: int, **change):
    return ServerRecord(**{**SERVER, "round": number, **change})


def times(records, devices=(FAST, SLOW), *, server_cpus=2.0, cost_model=None) -> list[RoundTime]:
    return round_times(records, lambda number: devices, server_cpus=server_cpus, cost_model=cost_model)


def only(records, *arguments, **keywords) -> RoundTime:
    [time] = times(records, *arguments, **keywords)
    return time


def test_one_exchange():
    time = only([client(0, 0), client(0, 1), server(0)])
    # 8 + 4 + 4 seconds of work on 4 and on 2 processors, 20 MB at 10 and at 5 MB/s: 6 s and 12 s.
    fast = Steps(train=2.0, select=1.0, encrypt=1.0, upload=2.0, download=1.0, decrypt=1.0, wait=6.0)
    slow = Steps(train=4.0, select=2.0, encrypt=2.0, upload=4.0, download=2.0, decrypt=2.0, wait=0.0)
    assert time == RoundTime(0, seconds=12.0 + 6.0 + 4.0, server_seconds=6.0, clients={0: fast, 1: slow})
    assert (fast.busy, slow.busy) == (8.0, 16.0)
    assert time.client_seconds == [8.0, 16.0]
    assert time.straggler_share == pytest.approx((6.0 / 22.0 + 0.0) / 2)


def test_two_exchanges():
    # Client 0 trains longer, client 1 encrypts longer: each waits for the other, once.
    records = [
        client(0, 0, train_seconds=40.0, propose_bytes=5 * MB),  # 10 + 1 + 0.5, then 1 + 1.5
        client(0, 1, propose_bytes=5 * MB),  # 4 + 2 + 1, then 2 + 3
        server(0),
    ]
    time = only(records)
    assert time.seconds == 11.5 + 5.0 + 6.0 + 4.0
    assert {index: steps.wait for index, steps in time.clients.items()} == {0: 2.5, 1: 4.5}
    assert time.clients[0].upload == 2.0  # both exchanges
    assert time.straggler_share == pytest.approx((2.5 + 4.5) / 2 / 26.5)
    without = only(
        [replace(record, propose_bytes=0) if isinstance(record, ClientRecord) else record for record in records]
    )
    assert without.seconds == 14.0 + 6.0 + 4.0  # one meeting fewer


def test_who_proposes_nothing_meets_the_others_all_the_same():
    time = only([client(0, 0, train_seconds=24.0, propose_bytes=10 * MB), client(0, 1)])
    # 6 + 1 + 1, then 1 + 1; and 4 + 2, then 2 + 4.
    assert time.seconds == 8.0 + 6.0 + 4.0
    assert (time.clients[0].wait, time.clients[1].wait) == (4.0, 2.0)


@pytest.mark.parametrize("propose", [0, 5 * MB])
@given(work=st.lists(st.tuples(*[st.floats(0, 100)] * 6), min_size=1, max_size=6))
def test_busy_and_waiting_fill_the_round_up_to_the_server(propose, work):
    records = [
        client(0, index, **dict(zip((*WORK, "decrypt_seconds"), row, strict=True)), propose_bytes=propose)
        for index, row in enumerate(work)
    ]
    time = only([*records, server(0)], [FAST, SLOW] * 3)
    back = max(steps.download + steps.decrypt for steps in time.clients.values())
    assert 0 <= time.straggler_share < 1
    for steps in time.clients.values():
        until_server = steps.busy - steps.download - steps.decrypt + steps.wait
        assert until_server + time.server_seconds + back == pytest.approx(time.seconds)


def test_prices_replace_what_was_measured():
    records = [client(0, 0), client(0, 1), server(0)]
    time = only(records, cost_model=CostModel(encrypt=1.0, add=0.5, decrypt=2.0))
    # (1 + 0.25) protection and (20 + 5) ciphertexts; 10 released; the server: 1 + 40 · 0.5 + 3 + 30 · 2.
    assert time.clients[0].encrypt == (1.25 + 25.0) / 4
    assert time.clients[1].decrypt == 20.0 / 2
    assert time.server_seconds == (1.0 + 20.0 + 3.0 + 60.0) / 2
    measured = only(records)
    for index, steps in time.clients.items():  # all but the cryptography stays as it was
        assert replace(steps, encrypt=0, decrypt=0, wait=0) == replace(
            measured.clients[index], encrypt=0, decrypt=0, wait=0
        )
    assert CLIENT["encrypt_seconds"] == 2.0  # nor is the record itself changed


def test_multiplying_and_adding_known_numbers_are_the_servers():
    weighed = server(0, multiply_seconds=5.0, multiplied_blocks=40, add_plain_seconds=0.5, plain_added_blocks=8)
    assert only([client(0, 0), weighed]).server_seconds == (12.0 + 5.5) / 2
    cost_model = CostModel(encrypt=1.0, add=0.5, decrypt=2.0, multiply=0.25, add_plain=0.125)
    assert only([client(0, 0), weighed], cost_model=cost_model).server_seconds == (84.0 + 10.0 + 1.0) / 2


@pytest.mark.parametrize("cost_model", [CostModel(1.0, 0.5, 2.0), CostModel(1.0, 0.5, 2.0, multiply=0.25)])
def test_what_has_no_price_is_not_free(cost_model):
    with pytest.raises(InvalidInput, match="no cost for operation"):
        only([server(0, multiplied_blocks=40, plain_added_blocks=8)], cost_model=cost_model)
    assert only([server(0)], cost_model=cost_model).server_seconds == 84.0 / 2


def test_half_the_speed_doubles_the_work_and_not_the_transfer():
    whole = only([client(0, 0)], [Device(cpus=4, bandwidth=10, ghz=2)]).clients[0]
    half = only([client(0, 0)], [Device(cpus=4, bandwidth=10, ghz=1)]).clients[0]
    for step in ("train", "select", "encrypt", "decrypt"):
        assert getattr(half, step) == 2 * getattr(whole, step) > 0
    assert (half.upload, half.download) == (whole.upload, whole.download)
    thin = only([client(0, 0)], [Device(cpus=4, bandwidth=5, ghz=2)]).clients[0]
    assert thin == replace(whole, upload=2 * whole.upload, download=2 * whole.download)


def test_who_is_left_out_holds_nobody_up():
    left_out = ClientRecord(round=0, cluster=0, client=1, left_out="nothing arrived", bytes_down=10 * MB)
    assert only([client(0, 0), left_out, server(0)]) == only([client(0, 0), server(0)])
    nobody = only([left_out])
    assert (nobody.seconds, nobody.straggler_share, nobody.client_seconds) == (0.0, 0.0, [])


def test_what_a_record_does_not_tell_is_nothing():
    time = only([ClientRecord(round=0, cluster=0, client=0, train_seconds=8.0)])
    assert time.clients == {0: Steps(2.0, 0.0, 0.0, 0.0, 0.0, 0.0)}
    assert time.seconds == 2.0


def test_clients_that_hold_the_key_open_the_model_themselves():
    steps = only([client(0, 0, release_seconds=2.0)]).clients[0]
    assert steps.decrypt == (4.0 + 2.0) / 4


def test_rounds_come_in_order_and_setting_up_first():
    asked = []

    def devices_of(number: int) -> list[Device]:
        asked.append(number)
        return [FAST if number == 0 else SLOW]

    records = [client(10, 0), server(2), client(-1, 0, train_seconds=0.0), client(2, 0), client(0, 0)]
    found = round_times(records, devices_of, server_cpus=2)
    assert [time.number for time in found] == [-1, 0, 2, 10]
    assert asked == [0, 0, 2, 10]  # setting up happens on the devices of round 0
    assert [time.clients[0].train for time in found] == [0.0, 2.0, 4.0, 4.0]
    assert [time.seconds for time in found] == [6.0, 8.0, 22.0, 16.0]
    assert total_seconds(found) == 52.0
    assert total_seconds([]) == 0.0
    assert round_times([], devices_of, server_cpus=2) == []


def test_the_servers_of_all_clusters_share_their_processors():
    records = [client(0, 0), client(0, 1, cluster=1), server(0), server(0, cluster=1, release_seconds=11.0)]
    on_one, on_four = only(records, server_cpus=1), only(records, server_cpus=4)
    # Cluster 1 arrives 6 s after cluster 0: it waits for the rest of cluster 0's 12 s, or finds the server free.
    assert (on_one.server_seconds, on_four.server_seconds) == (12.0 - 6.0 + 20.0, 5.0)
    assert on_one.seconds - on_four.seconds == 21.0
    assert on_one.clients == on_four.clients


def test_clients_are_told_in_their_order():
    assert list(only([client(0, 1), client(0, 0)]).clients) == [0, 1]


@pytest.mark.parametrize(
    ("records", "argument"),
    [
        ([client(3, 2)], "devices_of"),
        ([client(0, 0), client(0, 0)], "records"),
        ([client(0, 0, train_seconds=-1.0)], "train_seconds"),
        ([client(0, 0, bytes_up=float("nan"))], "bytes_up"),
        ([client(0, 0, propose_bytes=21 * MB)], "propose_bytes"),
        ([client(-2, 0)], "round"),
        ([client(0, -1)], "client"),
        ([server(0, add_seconds=-1.0)], "add_seconds"),
    ],
)
def test_bad_records_are_named(records, argument):
    with pytest.raises(InvalidInput) as error:
        times(records)
    assert error.value.argument == argument


def test_a_missing_device_is_told_with_its_client_and_round():
    with pytest.raises(InvalidInput, match="gives 2 devices, and client 2 has a record of round 3"):
        times([client(3, 2)])


@pytest.mark.parametrize("server_cpus", [0, -1, float("inf")])
def test_servers_need_processors(server_cpus):
    with pytest.raises(InvalidInput) as error:
        times([], server_cpus=server_cpus)
    assert error.value.argument == "server_cpus"


def test_prices_are_no_gifts():
    with pytest.raises(InvalidInput) as error:
        CostModel(encrypt=1.0, add=-0.5, decrypt=1.0)
    assert error.value.argument == "add"
    with pytest.raises(InvalidInput) as error:
        CostModel(encrypt=1.0, add=0.5, decrypt=1.0, multiply=-0.5)
    assert error.value.argument == "multiply"


# Paces.

MODEL = {"size": 5 * MB, "block": 100_000, "value_bytes": 4, "ciphertext_bytes": 900_000}


def test_a_pace_worked_by_hand():
    # 8/2 + 20 MB at 5 MB/s; (3 + 1 + 1)/2; 0.1 s of work on 2 processors + 0.5 MB more than plain at 5 MB/s.
    assert pace(client(0, 0), SLOW, **MODEL) == Pace(plain=8.0, scoring=2.5, block=0.05 + 0.1)


def test_the_bandwidth_of_an_answer_is_its_bytes_by_its_whole_delay():
    answer = Facts(train_seconds=4.0, sensitivity_seconds=2.0, order_encrypt_seconds=2.0, bytes_up=20 * MB)
    device = Device(2.0, 10.0)
    assert answer_bandwidth(answer, device) == pytest.approx(20 / (8 / 2 + 20 / 10))
    assert answer_bandwidth(replace(answer, bytes_down=99 * MB), device) == answer_bandwidth(answer, device)
    twice = Device(2.0, 10.0, ghz=2.0)
    assert answer_bandwidth(answer, twice) == pytest.approx(20 / (8 / 4 + 20 / 10))
    with pytest.raises(InvalidInput, match="without bytes"):
        answer_bandwidth(Facts(train_seconds=1.0), device)


def test_training_before_the_first_round_takes_time_on_the_device():
    [time] = times([client(-1, 0)], [Device(2.0, 1000.0)])
    [without] = times([client(-1, 0, train_seconds=0.0)], [Device(2.0, 1000.0)])
    assert time.seconds - without.seconds == pytest.approx(CLIENT["train_seconds"] / 2.0)


def test_a_pace_by_price():
    cost_model = CostModel(encrypt=3.0, add=0.0, decrypt=0.0)
    assert pace(client(0, 0), SLOW, **MODEL, cost_model=cost_model).block == 1.5 + 0.1
    assert pace(client(0, 0, encrypted_blocks=0), SLOW, **MODEL, cost_model=cost_model).block == 1.5 + 0.1


def test_a_ciphertext_shorter_than_its_values_saves_no_time():
    assert pace(client(0, 0), SLOW, **{**MODEL, "ciphertext_bytes": 10}).block == 0.05


def test_who_encrypted_nothing_is_as_fast_as_before():
    idle = client(0, 0, encrypted_blocks=0, encrypt_seconds=0.0)
    assert pace(idle, SLOW, **MODEL, block_seconds=1.0).block == 0.5 + 0.1
    assert pace(client(0, 0), SLOW, **MODEL, block_seconds=1.0).block == 0.05 + 0.1  # what is new counts
    pretended = client(0, 0, encrypt_seconds=0.0)  # blocks that were counted, and not encrypted
    assert pace(pretended, SLOW, **MODEL, block_seconds=1.0).block == 0.5 + 0.1
    for unusable in (None, -1.0, float("nan")):
        with pytest.raises(InvalidInput) as error:
            pace(idle, SLOW, **MODEL, block_seconds=unusable)
        assert error.value.argument == "block_seconds"


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"size": 0}, "size"),
        ({"block": 0}, "block"),
        ({"value_bytes": -1}, "value_bytes"),
        ({"ciphertext_bytes": float("nan")}, "ciphertext_bytes"),
    ],
)
def test_bad_models_are_named(change, argument):
    with pytest.raises(InvalidInput) as error:
        pace(client(0, 0), SLOW, **{**MODEL, **change})
    assert error.value.argument == argument


def test_who_was_left_out_has_no_pace():
    with pytest.raises(InvalidInput) as error:
        pace(client(0, 0, left_out="nothing arrived"), SLOW, **MODEL)
    assert error.value.argument == "record"


@given(st.lists(st.tuples(*[st.floats(0.01, 100)] * 5), min_size=1, max_size=4))
def test_whoever_keeps_the_budget_of_its_pace_is_in_time(work):
    """The clock and the budgets mean the same seconds: budgets are kept in the round that follows."""
    devices = [FAST, SLOW, FAST, SLOW]
    before = [client(0, index, **dict(zip(WORK, row, strict=True))) for index, row in enumerate(work)]
    paces = [pace(record, device, **MODEL) for record, device in zip(before, devices, strict=False)]
    columns = zip(*((each.plain, each.scoring, each.block) for each in paces), strict=True)
    budgets = deadline_budgets(*columns, blocks=50)
    after = []
    for record, budget in zip(before, budgets, strict=True):
        count = round(budget * 50)
        after.append(
            replace(
                record,
                encrypt_seconds=record.encrypt_seconds / 20 * count,
                bytes_up=20 * MB + count * 500_000,
                order_protect_seconds=0.0,
                order_encrypt_seconds=0.0,
            )
        )
    slowest = max(each.plain for each in paces)
    deadline = slowest + max(0.1 * slowest, 1.0)
    for steps, budget in zip(only(after, devices).clients.values(), budgets, strict=True):
        done = steps.busy - steps.download - steps.decrypt
        assert done <= deadline + 1e-9 or budget == 1 / 50
