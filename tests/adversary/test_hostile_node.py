"""What a hostile node of a native Flower app can try against the ServerApp, and a hostile ServerApp against a node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg

from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.flower import SenseCrypt, mod
from sensecrypt.flower.instructions import RECORD
from sensecrypt.protocol.answers import RoundTask
from tests.flower.loop import FAST, Loop, largest_difference, model, play, protected, record
from tests.flower.test_refusals import Seen, as_upload, seen, swap


class Repeating(Loop):
    """Delivers what a hostile network adds to the replies."""

    added = staticmethod(lambda replies: [])

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        training = replies[0].metadata.message_type == "train"
        return [*replies, *self.added(replies)] if training else replies


def of(reply: Message, node: int) -> Message:
    """The same reply, as if from another node."""
    other = Message(reply.content, reply_to=reply)
    other.metadata.__dict__["_src_node_id"] = node
    return other


def refusals(caplog) -> list[str]:
    return [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]


@pytest.mark.parametrize("node", [102, 999], ids=["twice", "not-asked"])
def test_a_reply_counts_once_and_only_of_nodes_that_were_asked(node, caplog):
    grid = Repeating()
    grid.added = lambda replies: [of(replies[2], node)]
    strategy = Seen()
    found = play(SenseCrypt(strategy, key_service="in-process", profile=FAST, trusted=True), grid, rounds=1)
    assert strategy.nodes == [[100, 101, 102, 103, 104]]
    assert largest_difference(play(protected(), rounds=1), found) < 1e-6
    assert refusals(caplog) == [f"refused, node {node}: an unexpected reply, or a second one"]


def test_a_node_whose_tag_did_not_match_is_excluded_from_later_rounds(caplog):
    strategy, rounds = Seen(), []

    def first_round_only(node, reply):
        rounds.append(node)
        data = reply.content["arrays"]["upload"].data
        flipped = as_upload(data[:-1] + bytes([data[-1] ^ 1]))
        return swap(103, flipped)(node, reply) if rounds.count(103) < 2 else reply

    wrapped = SenseCrypt(strategy, key_service="in-process", profile=FAST, trusted=True)
    play(wrapped, Loop(nodes=6, after=first_round_only), rounds=3)
    assert all(103 not in nodes for nodes in strategy.nodes)
    assert strategy.nodes[0] == [100, 101, 102, 104, 105]
    assert refusals(caplog) == ["refused, node 103: an earlier upload of this node did not match its tag"] * 2


def test_the_upload_of_a_larger_model_is_refused_by_name(caplog):
    uploads = {}

    def keep(node, reply):
        uploads[node] = reply.content["arrays"]["upload"]
        return reply

    large = {**model(), "bias": np.zeros(700, dtype=np.float32)}
    play(protected(), Loop(after=keep), rounds=1, start=large)
    strategy = seen(after=lambda node, reply: swap(102, uploads[102])(node, reply))
    assert strategy.nodes == [[100, 101, 103, 104]]
    assert all("node 102" in line for line in refusals(caplog))
    assert len(refusals(caplog)) == 1


@pytest.mark.parametrize("part", ["update", "weight"])
def test_a_client_that_ignores_the_bounds_does_not_move_the_model(part, monkeypatch):
    """It encodes 100 times what it may: the sum is out of bounds, and the inner strategy never gets it."""
    encode = mod.encode

    def large(update, examples, terms, round_, client):
        vector, clipped = encode(update, examples, terms, round_, client)
        if client == 3:
            half = vector.size // 2
            at = slice(0, half - 1) if part == "update" else slice(half - 1, half)
            vector[at] = 100 * np.sign(vector[at]) * np.maximum(1.0, np.abs(vector[at]))
        return vector, clipped

    monkeypatch.setattr(mod, "encode", large)
    strategy = Seen()
    with pytest.raises(Rejected, match="not released"):
        play(SenseCrypt(strategy, key_service="in-process", profile=FAST, trusted=True, clip=5.0), rounds=1)
    assert strategy.nodes == []


def changed_task(change):
    """Messages whose task has another round."""

    def before(node, message):
        sent = message.content[RECORD]
        task = RoundTask.from_bytes(sent["task"])
        sent["task"] = RoundTask(change(task.round), task.seed).to_bytes()
        return message

    return before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda round_: replace(round_, number=7), "differs from the one in the ServerApp's instructions"),
        (lambda round_: replace(round_, weights={8: 0.5, 9: 0.5}), "differs from the one in the ServerApp's"),
        (lambda round_: replace(round_, size=round_.size + 63), "numbers, this model needs"),
        (lambda round_: replace(round_, clip=1.0), "numbers, this model needs"),
        (
            lambda round_: replace(round_, weights={c: w * (0.6 if c else 1.6) for c, w in round_.weights.items()}),
            "different shares",
        ),
    ],
    ids=["round", "member", "size", "clip", "shares"],
)
def test_a_node_refuses_a_round_that_does_not_fit_its_message(change, reason):
    grid = Loop(before=changed_task(change))
    with pytest.raises(Rejected, match=reason):
        play(protected(), grid, rounds=1)
    assert all(reply.has_error() for reply in grid.received)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("mask", b"\xff" * 40, "the ServerApp's mask is of another model"),
        ("client", "0", "missing or mistyped fields"),
        ("bound", float("nan"), "bound"),
        ("bound", -1.0, "bound"),
        ("least-examples", 1e9, "least"),
        ("public-key", b"{", "public key that cannot be read"),
        ("task", b"?", "not released"),
    ],
)
def test_instructions_that_cannot_be_followed_are_an_error_of_the_node(name, value, reason):
    def change(node, message):
        message.content[RECORD][name] = value
        return message

    grid = Loop(before=change)
    with pytest.raises(Rejected, match=reason):
        play(protected(), grid, rounds=1)
    assert len(grid.received) == 5
    assert all("sensecrypt_mod" in reply.error.reason for reply in grid.received)


class Uneven(FedAvg):
    """Sends one node another model."""

    def configure_train(self, server_round, arrays, config, grid):
        messages = list(super().configure_train(server_round, arrays, config, grid))
        other = record({key: array.numpy() + 1 for key, array in arrays.items()})
        messages[0].content = RecordDict({**messages[0].content, "arrays": other})
        return messages


class Twice(FedAvg):
    """Samples one node twice."""

    def configure_train(self, server_round, arrays, config, grid):
        messages = list(super().configure_train(server_round, arrays, config, grid))
        return [*messages, messages[0]]


class Bare(FedAvg):
    """Sends no model."""

    def configure_train(self, server_round, arrays, config, grid):
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            message.content = RecordDict({"config": config})
        return messages


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [(Uneven, "sends nodes different models"), (Twice, "asks a node twice"), (Bare, "without one ArrayRecord")],
)
def test_a_strategy_whose_updates_cannot_be_added_is_stopped_before_anything_is_sent(strategy, reason):
    grid = Loop()
    with pytest.raises(InvalidInput, match=f"strategy: .*{reason}"):
        play(protected(strategy(), trusted=True), grid, rounds=1)
    assert not grid.sent


def test_no_round_is_released_twice_in_one_process():
    """The same sum again is answered from what is kept; a sum of fewer clients is refused."""
    strategy, codes = protected(), []
    collect = strategy._release

    def twice(usable, pending, problems):
        first = collect(usable, pending, problems)
        fewer = {number: usable[number] for number in sorted(usable)[:4]}
        with pytest.raises(Rejected) as caught:
            collect(fewer, pending, problems)
        codes.append(caught.value.code)
        return first

    strategy._release = twice
    play(strategy, rounds=1)
    assert codes == ["already-decrypted"]


def test_a_reply_with_two_records_or_none_is_refused_by_name(caplog):
    def change(node, reply):
        if node == 101:
            reply.content = RecordDict({**reply.content, "more": ArrayRecord()})
        if node == 102:
            reply.content = RecordDict({"metrics": reply.content["metrics"]})
        if node == 103:
            reply.content = RecordDict({"arrays": reply.content["arrays"]})
        return reply

    strategy = seen(after=change, nodes=7)
    assert strategy.nodes == [[100, 104, 105, 106]]
    assert [line.split(":")[0] for line in refusals(caplog)] == [f"refused, node {node}" for node in (101, 102, 103)]
