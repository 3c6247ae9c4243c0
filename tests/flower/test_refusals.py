"""What cannot be right is refused, with one clear line, and the inner strategy never sees it."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    Krum,
    MultiKrum,
    QFedAvg,
)

from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.flower import SenseCrypt, sensecrypt_mod
from sensecrypt.flower.instructions import RECORD, UPLOAD
from tests.flower.loop import Loop, client_app, largest_difference, model, plain, play, protected, record

UNFIT = [
    FedMedian(),
    FedTrimmedAvg(),
    Krum(),
    MultiKrum(),
    Bulyan(),
    QFedAvg(client_learning_rate=0.1),
    FedXgbBagging(),
    DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 5),
    DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 1.0, 50),
]


class Own(FedAvg):
    pass


class Seen(FedAvg):
    """Notes which nodes' replies reach it."""

    def __init__(self):
        super().__init__()
        self.nodes = []

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        self.nodes.append(sorted(reply.metadata.src_node_id for reply in replies if not reply.has_error()))
        return super().aggregate_train(server_round, replies)


def seen(**hooks) -> Seen:
    strategy = Seen()
    play(SenseCrypt(strategy, key_service="in-process", profile="insecure-test", trusted=True), Loop(**hooks), rounds=1)
    return strategy


def swap(node, array: Array):
    """Replace one node's upload."""

    def change(who, reply: Message) -> Message:
        if who == node:
            arrays = dict(reply.content["arrays"])
            reply.content["arrays"] = ArrayRecord({**arrays, "upload": array})
        return reply

    return change


def as_upload(data: bytes, stype: str = UPLOAD, dtype: str = "bytes") -> Array:
    return Array(dtype=dtype, shape=(len(data),), stype=stype, data=data)


@pytest.mark.parametrize("strategy", UNFIT, ids=lambda strategy: type(strategy).__name__)
def test_strategies_that_need_single_updates_are_refused_with_the_reason(strategy):
    with pytest.raises(InvalidInput, match=type(strategy).__name__) as caught:
        SenseCrypt(strategy, key_service="in-process", trusted=True)
    assert "\n" not in str(caught.value)


def test_a_strategy_within_a_wrapper_is_looked_at():
    from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping

    with pytest.raises(InvalidInput, match="FedMedian"):
        protected(DifferentialPrivacyClientSideFixedClipping(FedMedian(), 1.0, 1.0, 5))


def test_an_unknown_class_needs_a_word_of_its_user():
    with pytest.raises(InvalidInput, match="Own is not known to work on sums; pass trusted=True"):
        protected(Own())
    assert largest_difference(plain(FedAvg()), play(protected(Own(), trusted=True))) < 1e-6
    with pytest.raises(InvalidInput, match="strategy: is a str"):
        protected("FedAvg")


@pytest.mark.parametrize("service", [None, "http://keys:1", "local", ""])
def test_a_key_service_is_named(service):
    with pytest.raises(InvalidInput, match=r'key_service: is .*; pass "in-process"'):
        SenseCrypt(FedAvg(), key_service=service)


def test_the_warning_about_one_process_comes_once(caplog):
    with caplog.at_level(logging.WARNING):
        play(protected(), rounds=3)
    assert sum("sees every update" in line.getMessage() for line in caplog.records) == 1


def test_without_the_mod_the_round_fails_and_says_so():
    """In one line, however many nodes there are."""
    with pytest.raises(Rejected, match="add sensecrypt_mod to the ClientApp's mods") as caught:
        play(protected(), Loop(client_app(mods=()), nodes=50))
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_without_the_wrapper_nothing_is_sent():
    grid = Loop(client_app())
    play(FedAvg(), grid, rounds=1)
    replies = [reply for reply in grid.received if reply.has_error()]
    assert len(replies) == 5
    assert all("nothing is sent; wrap the ServerApp's strategy" in reply.error.reason for reply in replies)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (Array(np.zeros(3)), "plain arrays"),
        (as_upload(b"garbage"), "truncated message"),
        (as_upload(b""), "truncated message"),
        (as_upload(b"x", stype="sensecrypt.upload.v2"), "no sensecrypt.upload.v1: install the same version"),
        (as_upload(b"x", dtype="float32"), "no sensecrypt.upload.v1"),
    ],
)
def test_a_reply_of_another_kind_is_refused_by_name(array, reason, caplog):
    strategy = seen(after=swap(102, array))
    assert strategy.nodes == [[100, 101, 103, 104]]
    [line] = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert "node 102" in line
    assert re.search(reason, line)


@pytest.mark.parametrize("at", [-1, -100, 400])
def test_a_tampered_reply_is_left_out_and_named(at, caplog):
    """Whether the message can still be read, or the sum does not match its tags any more."""

    def flip(node, reply):
        if node == 103:
            data = bytearray(reply.content["arrays"]["upload"].data)
            data[at] ^= 1
            return swap(103, as_upload(bytes(data)))(node, reply)
        return reply

    strategy = seen(after=flip, nodes=4)
    assert strategy.nodes == [[100, 101, 102]]
    assert any("node 103" in each.getMessage() for each in caplog.records if each.levelname == "WARNING")


def test_a_culprit_among_three_makes_the_round_fail():
    def flip(node, reply):
        data = reply.content["arrays"]["upload"].data
        return swap(101, as_upload(data[:-1] + bytes([data[-1] ^ 1])))(node, reply)

    with pytest.raises(Rejected, match="does not match the tags"):
        seen(after=flip, nodes=3)


def test_the_upload_of_another_node_is_refused():
    kept = {}

    def change(node, reply):
        kept[node] = reply.content["arrays"]["upload"]
        return swap(104, kept[100])(node, reply)

    assert seen(after=change).nodes == [[100, 101, 102, 103]]


def test_an_earlier_rounds_reply_is_refused():
    kept = {}

    def change(node, reply):
        if node == 100 and node not in kept:
            kept[node] = dict(reply.content["arrays"])
        elif node == 100:
            reply.content["arrays"] = ArrayRecord(kept[100])
        return reply

    strategy = Seen()
    play(SenseCrypt(strategy, key_service="in-process", profile="insecure-test", trusted=True), Loop(after=change))
    assert strategy.nodes == [[100, 101, 102, 103, 104], [101, 102, 103, 104]]


def _reply_with(arrays):
    """An app that returns other arrays than it was sent."""
    app = client_app(mods=())
    train = app._registered_funcs["train.default"]

    def call(message, context, call_next):
        reply = train(message, context)
        reply.content["arrays"] = record(arrays) if arrays else ArrayRecord()
        return reply

    return client_app(mods=(sensecrypt_mod, call))


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"weight": np.zeros((7, 5), dtype=np.float32)}, "arrays of another model"),
        ({**model(), "weight": np.zeros((5, 7), dtype=np.float32)}, "arrays of another model"),
        ({**model(), "bias": np.full(5, np.nan, dtype=np.float32)}, "bias: has NaN or infinite values"),
        ({**model(), "bias": np.zeros(5, dtype=complex)}, "bias: has dtype complex128"),
        ({"batches": np.array(3)}, "arrays of whole numbers only"),
        ({}, "the reply: has no arrays"),
    ],
)
def test_a_node_sends_nothing_that_is_no_update_of_its_model(arrays, reason):
    with pytest.raises(Rejected, match=reason):
        play(protected(), Loop(_reply_with(arrays)), rounds=1)


@pytest.mark.parametrize(
    ("start", "reason"),
    [({}, "has no arrays"), ({"count": np.arange(3)}, "whole numbers only"), ({"w": np.zeros(0)}, "has no numbers")],
)
def test_a_model_that_cannot_be_averaged_is_refused_before_anybody_is_asked(start, reason):
    grid = Loop()
    with pytest.raises(InvalidInput, match=reason):
        play(protected(), grid, start=start)
    assert not grid.sent


def test_an_error_of_the_app_arrives_as_it_is():
    def failing(message, context, call_next):
        return Message(Error(77, "out of memory"), reply_to=message)

    grid = Loop(client_app(mods=(sensecrypt_mod, failing)))
    with pytest.raises(Rejected, match="node 100, node 101, node 102 and 2 more: out of memory"):
        play(protected(), grid, rounds=1)
    assert {reply.error.code for reply in grid.received} == {77}


def test_a_reply_without_the_number_of_examples_is_refused():
    with pytest.raises(Rejected, match="num-examples: is no positive number in the reply"):
        play(protected(), Loop(client_app(metric="samples")), rounds=1)


def test_another_version_on_the_node_says_so():
    def older(node, message):
        message.content[RECORD]["version"] = 7
        return message

    with pytest.raises(Rejected, match=r"has version 7 of sensecrypt.flower.s messages, this node 1: install"):
        play(protected(), Loop(before=older), rounds=1)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_round_of_too_few_is_not_started(nodes):
    grid = Loop(nodes=nodes)
    strategy = protected(FedAvg(min_train_nodes=nodes, min_available_nodes=nodes))
    with pytest.raises(Rejected, match=f"{nodes} contributor.s., but at least 3 are needed"):
        play(strategy, grid)
    assert not grid.sent


def test_too_few_replies_name_the_rule_and_who_is_missing():
    def fail(node, message):
        if node > 101:
            raise AssertionError
        return message

    app = Loop(before=lambda node, message: message if node < 102 else None)
    with pytest.raises(Rejected, match=r"round 1 is not released: 2 contributor.s., but at least 3 are needed"):
        play(protected(), app)


def test_a_client_that_dominates_the_sum_is_named_as_the_reason_with_the_way_out():
    examples = lambda node: 900 if node == 100 else 10  # noqa: E731
    with pytest.raises(Rejected, match=r"one client .* sum.*examples=\(least, most\)"):
        play(protected(), Loop(client_app(examples=examples)), rounds=1)
    capped = lambda node: min(examples(node), 30)  # noqa: E731
    found = play(protected(examples=(0, 30)), Loop(client_app(examples=examples)), rounds=1)
    assert largest_difference(plain(FedAvg(), examples=capped, rounds=1), found) < 1e-6


def test_an_update_beyond_the_bound_is_clipped_and_the_node_says_so(caplog):
    found = play(protected(clip=0.01), rounds=1)
    start = model()
    moved = np.concatenate([(found.arrays[key].numpy() - start[key]).ravel() for key in start])
    assert 0 < np.linalg.norm(moved) <= 0.01 * (1 + 1e-4)
    assert any("is clipped" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize(
    "mods", [(fixedclipping_mod, sensecrypt_mod), (LocalDpMod(1.0, 1.0, 1.0, 1e-5), sensecrypt_mod)]
)
def test_mods_in_the_wrong_order_send_nothing(mods):
    with pytest.raises(Rejected, match="not released"):
        play(protected(), Loop(client_app(mods=mods)), rounds=1)


def test_a_node_trains_from_one_model_once():
    """Two sums from one model, one without a client, would show that client's update."""
    frozen = {}

    def again(node, message):
        frozen.setdefault("arrays", message.content["arrays"])
        message.content = RecordDict({**message.content, "arrays": frozen["arrays"]})
        return message

    with pytest.raises(Rejected, match="trained from this very model before"):
        play(protected(), Loop(before=again), rounds=2)
