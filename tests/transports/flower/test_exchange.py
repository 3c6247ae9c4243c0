"""Messages to many nodes: everybody answers or is told missing, exactly once, whatever Flower or a node does."""

from __future__ import annotations

import time

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from sensecrypt.coordinator.ports import Unanswered
from sensecrypt.errors import Rejected
from sensecrypt.protocol.requests import require_parts
from sensecrypt.transports.flower import exchange
from sensecrypt.transports.flower.exchange import ask
from sensecrypt.transports.flower.wire import pack


class Stub:
    """A grid of three nodes; `answer` makes a reply of a message, or raises."""

    def __init__(self, answer, numbers=None):
        self._answer, self._numbers, self._sent = answer, numbers, {}

    def push_messages(self, messages):
        for index, message in enumerate(messages):
            number = f"m{index}"
            message.metadata.__dict__["_message_id"] = number
            self._sent[number] = message
        return list(self._sent) if self._numbers is None else self._numbers

    def pull_messages(self, numbers):
        replies = [self._answer(self._sent[number]) for number in numbers if number in self._sent]
        return [reply for reply in replies if reply is not None]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    monkeypatch.setattr(exchange, "_PAUSE", 0.01)


def asked(answer, numbers=None, seconds=0.1):
    requests = {node: {"a": bytes([node])} for node in (5, 6, 7)}
    replies = list(ask(Stub(answer, numbers), "query.enrol", requests, seconds=seconds))
    assert sorted(reply.client for reply in replies) == [5, 6, 7]
    return {reply.client: reply for reply in replies}


def echo(message: Message) -> Message:
    return Message(message.content, reply_to=message)


def test_everybody_s_answer_arrives():
    for node, reply in asked(echo).items():
        assert require_parts(reply.content, needed={"a"}) == {"a": bytes([node])}


def test_an_answer_tells_its_delay():
    def slow(message: Message) -> Message:
        time.sleep(0.05)
        return echo(message)

    assert all(reply.seconds >= 0.05 for reply in asked(slow).values())


def test_who_does_not_answer_is_told():
    replies = asked(lambda message: echo(message) if message.metadata.dst_node_id != 6 else None)
    with pytest.raises(Unanswered, match="no answer within"):
        _ = replies[6].content


def test_an_error_is_told_in_harmless_words():
    replies = asked(lambda message: Message(Error(1, "bad\x1b[2J"), reply_to=message))
    assert replies[5].failure == "the node failed (bad·[2J)"


def test_messages_that_superlink_does_not_take_are_told():
    replies = asked(echo, numbers=["m0", "", ""])
    assert replies[5].failure == ""
    assert {replies[node].failure for node in (6, 7)} == {"SuperLink did not take its message"}
    assert {reply.failure for reply in asked(echo, numbers=[]).values()} == {"SuperLink did not take its message"}


def test_an_answer_in_somebody_else_s_name_does_not_count():
    def answer(message):
        reply = echo(message)
        if message.metadata.dst_node_id == 5:
            reply.metadata.__dict__["_src_node_id"] = 6
        return reply

    replies = asked(answer)
    assert "no answer" in replies[5].failure
    assert replies[6].failure == ""


def test_an_answer_that_cannot_be_put_together_keeps_nobody_else_s_back():
    def answer(message):
        if message.metadata.dst_node_id == 6:
            raise ValueError("cannot be inflated")
        return echo(message)

    replies = asked(answer)
    assert "no answer" in replies[6].failure
    assert replies[5].failure == replies[7].failure == ""


def test_an_answer_without_content_is_told():
    def answer(message):
        reply = echo(message)
        reply.__dict__["_content"] = None
        return reply

    assert {reply.failure for reply in asked(answer).values()} == {"an answer without content"}


def test_other_content_is_refused_by_whoever_reads_it():
    replies = asked(lambda message: Message(RecordDict(), reply_to=message))
    with pytest.raises(Rejected, match="not a message of sensecrypt"):
        require_parts(replies[5].content, needed={"a"})
    assert pack({}) is not None
