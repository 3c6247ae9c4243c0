"""Sends messages to many nodes, and yields their replies as they arrive, until all are there or time is up."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from sensecrypt.coordinator.ports import Reply
from sensecrypt.errors import Rejected
from sensecrypt.protocol.requests import FAILURE, Parts, printable
from sensecrypt.transports.flower.wire import pack, unpack

_PAUSE = 0.5  # seconds between two requests for replies, at most
_FIRST_PAUSE = 0.02  # at least; else a tenth of the time so far, so that delays are measured to a tenth
_LOG = logging.getLogger("sensecrypt.fleet")


def ask(grid: Grid, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
    """Send each node its request; yield exactly one `Reply` per node, with its answer or the reason why there is none.

    Args:
        grid: of Flower.
        kind: the message type, which selects the function of the ClientApp.
        requests: the parts of each node's message.
        seconds: the time limit; after it Flower drops the messages.
    """
    begin = time.monotonic()
    end = begin + seconds
    messages = [Message(pack(parts), node, kind, ttl=seconds) for node, parts in requests.items()]
    numbers = list(grid.push_messages(messages)) if messages else []
    waiting: dict[str, int] = {}
    for node, number in itertools.zip_longest(requests, numbers[: len(messages)]):
        if number:
            waiting[number] = node
        else:
            yield Reply(node, None, "SuperLink did not take its message")
    while waiting:
        for message in _pull(grid, list(waiting)):
            number = message.metadata.reply_to_message_id
            if message.metadata.src_node_id != waiting.get(number) and not message.has_error():
                continue  # a reply to another node's message, or from another node
            node = waiting.pop(number, None)
            if node is not None:
                yield replace(_read(node, message), seconds=time.monotonic() - begin)
        if time.monotonic() >= end:
            break
        if waiting:
            time.sleep(min(_PAUSE, max(_FIRST_PAUSE, (time.monotonic() - begin) / 10)))
    for node in waiting.values():
        yield Reply(node, None, f"no answer within {seconds:.0f} s")


def _pull(grid: Grid, numbers: list[str]) -> list[Message]:
    """The replies that have arrived; one that Flower cannot assemble does not hold back the others."""
    try:
        return list(grid.pull_messages(numbers))
    except Exception as error:  # Flower raises many kinds of errors for malformed replies
        _LOG.warning("replies are pulled one by one: %s", printable(str(error)[:200]))
    arrived: list[Message] = []
    for number in numbers:
        with contextlib.suppress(Exception):
            arrived += list(grid.pull_messages([number]))
    return arrived


def _read(node: int, message: Message) -> Reply:
    if message.has_error():
        return Reply(node, None, f"the node failed ({printable(str(message.error.reason)[:200])})")
    if not message.has_content() or not isinstance(message.content, RecordDict):
        return Reply(node, None, "an answer without content")
    try:
        return Reply(node, unpack(message.content))
    except Rejected as error:
        return Reply(node, {FAILURE: str(error).encode()})
