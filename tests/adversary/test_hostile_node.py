"""What a hostile node of a native Flower app can try against the ServerApp, and a hostile ServerApp against a node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
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


def test_a_node_whose_tags_do_not_match_is_found_and_excluded():
    """Two nodes are suspects after the first round. Half of them rest in the next, until one is alone."""

    def flip(node, reply):
        data = reply.content["arrays"]["upload"].data
        return swap(103, as_upload(data[:-1] + bytes([data[-1] ^ 1])))(node, reply)

    strategy, grid = Seen(), Loop(nodes=6, after=flip)
    wrapped = SenseCrypt(strategy, key_service="in-process", profile=FAST, trusted=True)
    play(wrapped, grid, rounds=6)
    assert all(103 not in nodes for nodes in strategy.nodes)
    assert [wrapped._numbers[103]] == list(wrapped._exclusion.found)
    assert strategy.nodes[-1] == [100, 101, 102, 104, 105]  # the honest suspect is back
    trained = [message.metadata.dst_node_id for message in grid.sent if message.metadata.message_type == "train"]
    assert trained.count(103) < 5 <= trained.count(100)  # an excluded node is not asked


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
    """Its tag is right and its values are out of bounds: it is found like a client whose tag does not match."""
    encode = mod.encode

    def large(update, examples, terms, round_, client):
        vector, clipped = encode(update, examples, terms, round_, client)
        if client == 3:
            half = vector.size // 2
            at = slice(0, half - 1) if part == "update" else slice(half - 1, half)
            vector[at] = 1000.0
        return vector, clipped

    monkeypatch.setattr(mod, "encode", large)
    strategy = Seen()
    wrapped = SenseCrypt(strategy, key_service="in-process", profile=FAST, trusted=True, clip=5.0)
    found = play(wrapped, Loop(nodes=6), rounds=1)
    [hostile] = [node for node, number in wrapped._numbers.items() if number == 3]
    assert strategy.nodes[0]
    assert hostile not in strategy.nodes[0]
    start = model()
    moved = np.concatenate([(found.arrays[key].numpy() - start[key]).ravel() for key in start])
    assert np.linalg.norm(moved) <= 5.0 * (1 + 1e-4)


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [("update", 5.0, "the mean update is longer than the bound"), ("weight", -1.0, "the sum of weights is not one")],
)
def test_a_mean_out_of_bounds_fails_the_round(part, value, reason, monkeypatch):
    """One client's vector is within its bound, and does not fit the weight that it sends: the sum shows it."""
    encode = mod.encode

    def unfit(update, examples, terms, round_, client):
        vector, clipped = encode(update, examples, terms, round_, client)
        if client == 3:
            half = vector.size // 2
            vector[slice(0, half - 1) if part == "update" else half - 1] = value
        return vector, clipped

    monkeypatch.setattr(mod, "encode", unfit)
    strategy = Seen()
    with pytest.raises(Rejected, match=f"round 1 is not released: {reason}"):
        play(SenseCrypt(strategy, key_service="in-process", profile=FAST, trusted=True, clip=5.0), rounds=1)
    assert strategy.nodes == []


def test_an_excluded_node_does_not_fill_a_round():
    """Of four nodes one is excluded, and another goes: two are too few, and the round is not started."""

    def flip(node, reply):
        data = reply.content["arrays"]["upload"].data
        return swap(103, as_upload(data[:-1] + bytes([data[-1] ^ 1])))(node, reply)

    strategy, grid = protected(), Loop(nodes=4, after=flip)
    play(strategy, grid, rounds=1)
    del grid.states[100]
    with pytest.raises(Rejected, match="round 2 of 2 nodes is not started"):
        strategy.configure_train(2, record(model(5)), ConfigRecord(), grid)


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
        (lambda round_: replace(round_, weights={0: 0.4, 1: 0.1, 2: 0.2, 3: 0.1, 4: 0.2}), "different shares"),
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
    strategy, caught = protected(), []
    release = strategy._service.release

    def twice(aggregate, round_):
        released = release(aggregate, round_)
        with pytest.raises(Rejected) as error:
            release(aggregate, round_)
        caught.append(error.value.code)
        return released

    strategy._service.release = twice
    play(strategy, rounds=1)
    assert caught == ["already-decrypted"]


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
