"""Rounds and answers as bytes: read back as they were, and refused if they are anything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.errors import Rejected
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.answers import (
    Acknowledgement,
    RoundTask,
    order_bytes,
    read_importance_order,
    read_released,
    serialize_importance_order,
    serialize_released,
)
from sensecrypt.protocol.envelope import serialize
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.messages import Aggregate
from sensecrypt.protocol.round import Round, describe_round, read_round
from sensecrypt.protocol.tags import TagOffset
from sensecrypt.protocol.updates import ReleasedSum
from sensecrypt.types import Mask

ROUND = Round("test", 3, 1, "model", 7, get_profile("insecure-test"), {0: 0.3, 5: 0.7}, 2)


def test_a_round_is_read_as_it_was():
    assert read_round(describe_round(ROUND)) == ROUND


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=7, max_size=7), st.floats(1e-9, 1))
def test_an_opened_sum_is_read_as_it_was(values, weight):
    released = read_released(serialize_released(ReleasedSum(np.array(values), weight, (0, 5)), ROUND), ROUND)
    assert (released.values.tolist(), released.weight, released.contributors) == (values, weight, (0, 5))


@pytest.mark.parametrize("after", [None, replace(ROUND, number=ROUND.number + 1, purpose="sensitivity")])
@pytest.mark.parametrize("ranking", [None, ImportanceOrder(np.array([2, 0, 1]), np.array([0.5, 0.25]))])
def test_a_task_is_read_as_it_was(after, ranking):
    seeds = bytes(range(32)), bytes(32) if after else b""
    task = RoundTask.from_bytes(RoundTask(ROUND, seeds[0], ranking, after, seeds[1]).to_bytes())
    assert (task.round, task.after, task.seed, task.after_seed) == (ROUND, after, *seeds)
    assert (task.ranking is None) == (ranking is None)
    assert ranking is None or task.ranking.order.tolist() == [2, 0, 1]


def test_orders_and_acknowledgements_are_read_as_they_were():
    ranking = read_importance_order(
        serialize_importance_order(ImportanceOrder(np.array([2, 0, 1]), np.array([0.5, 0.25])))
    )
    assert (ranking.order.tolist(), ranking.sensitivities.tolist()) == ([2, 0, 1], [0.5, 0.25])
    for size in (1, 2**16, 2**16 + 1, 2**17, 300_001):
        order, profile = np.random.default_rng(size).permutation(size), np.ones(3)
        message = serialize_importance_order(ImportanceOrder(order, profile))
        assert np.array_equal(read_importance_order(message).order, order)
        assert order_bytes(size) <= len(message) < order_bytes(size) + 400
        assert order_bytes(size) == 2 * size + max(0, (size - 1).bit_length() - 16) * -(-size // 8)
    told = Acknowledgement((1, 2), 1 / 3)
    assert Acknowledgement.from_bytes(told.to_bytes()) == told


def described(clients, weights, **changes) -> bytes:
    fields = {**ROUND.header, "size": 7, "profile": "insecure-test", **changes}
    return serialize(
        "round", fields, {"clients": np.array(clients, dtype="<i8"), "weights": np.array(weights, dtype="<f8")}
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        serialize("seed", {}, {}),
        described([], []),
        described([0, 1], [0.5]),
        described([1, 0], [0.5, 0.5]),
        described([0, 0], [0.5, 0.5]),
        described([-1, 0], [0.5, 0.5]),
        described([0, 1], [0.5, np.nan]),
        described([0, 1], [0.5, 0.6]),
        described([0, 1], [0.5, -0.5]),
        described([0, 1], [0.5, 0.5], size=0),
        described([0, 1], [0.5, 0.5], size="many"),
        described([0, 1], [0.5, 0.5], profile="rot13"),
        described([0, 1], [0.5, 0.5], purpose="all"),
        described([0, 1], [0.5, 0.5], cluster=-1),
        described([0, 1], [0.5, 0.5], more="fields"),
    ],
)
def test_an_impossible_round_is_refused(data):
    with pytest.raises(Rejected):
        read_round(data)


def packed_order(order, profile, high_rows=0):
    return {
        "low": np.array(order, "<u2"),
        "high": np.zeros((high_rows, -(-len(order) // 8)), np.uint8),
        "profile": np.array(profile),
    }


def test_damaged_answers_are_refused():
    wrong = [
        (
            read_importance_order,
            serialize("ranking", {}, packed_order([0, 0], [1.0])),
        ),
        (
            read_importance_order,
            serialize("ranking", {}, packed_order([0, 1], [np.nan])),
        ),
        (read_importance_order, serialize("ranking", {}, packed_order([0, 1], [1.0], high_rows=1))),
        (RoundTask.from_bytes, serialize("ranking", {}, {})),
        (RoundTask.from_bytes, serialize("task", {}, {"seed": np.zeros(32, np.uint8)})),
        (RoundTask.from_bytes, serialize("task", {}, {"seed": np.zeros(31, np.uint8), "round": np.zeros(3, np.uint8)})),
        (RoundTask.from_bytes, RoundTask(ROUND, b"short").to_bytes()),
        (Acknowledgement.from_bytes, serialize("acknowledgement", {"contributors": "a", "weight": "0x1p0"}, {})),
        (Acknowledgement.from_bytes, serialize("acknowledgement", {"contributors": "1", "weight": "one"}, {})),
        (lambda data: read_released(data, ROUND), serialize_released(ReleasedSum(np.arange(6), 1.0, (0,)), ROUND)),
    ]
    for read, data in wrong:
        with pytest.raises(Rejected):
            read(data)


def test_a_sums_digest_follows_its_content():
    mask, rows = Mask.prefix(1, size=7, block=7), np.arange(128, dtype=np.uint8).reshape(1, 128)
    tag_offset = TagOffset(3, 2**61 - 2)
    base = Aggregate((0, 1), mask, rows, mask, np.arange(0), tag_offset)
    same = Aggregate.from_bytes(base.to_bytes(ROUND), ROUND)
    assert same.digest() == base.digest()
    nothing = Mask.prefix(0, size=7, block=7)
    others = [
        Aggregate((0, 2), mask, rows, mask, np.arange(0), tag_offset),
        Aggregate((0, 1), mask, rows + np.uint8(1), mask, np.arange(0), tag_offset),
        Aggregate((0, 1), mask, rows, nothing, np.arange(7), tag_offset),
        Aggregate((0, 1), nothing, rows[:0], nothing, np.arange(7), tag_offset),
        Aggregate((0, 1), nothing, rows[:0], nothing, np.arange(7) + 1, tag_offset),
        Aggregate((0, 1), mask, rows, mask, np.arange(0), TagOffset(3, 2)),
        Aggregate((0, 1), mask, rows, mask, np.arange(0), TagOffset(4, 2**61 - 2)),
    ]
    assert len({base.digest(), *(other.digest() for other in others)}) == 8
