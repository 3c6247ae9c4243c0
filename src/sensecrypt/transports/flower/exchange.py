"""Messages to many nodes, and their replies as they arrive, until everybody has answered or time is up."""

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

_PAUSE = 0.5  # seconds between two looks at most
_FIRST_PAUSE = 0.02  # and at least; in between, a tenth of the delay so far, which measures it that well
_LOG = logging.getLogger("sensecrypt.fleet")


def ask(grid: Grid, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
    """Send each node its request; its reply, or that there is none, exactly once per node, whose number it carries.

    Args:
        grid: Flower's way to the nodes.
        kind: of the messages, by which a ClientApp knows what to do.
        requests: the parts of each node's message.
        seconds: after which nobody is waited for; a node that comes back later does not find its message any more.
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
                continue  # an answer to somebody else's message, or of somebody else
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
    """What has arrived; a message that cannot even be put together keeps nobody else's back."""
    try:
        return list(grid.pull_messages(numbers))
    except Exception as error:  # Flower raises many kinds for what a node sent
        _LOG.warning("replies cannot be read together: %s", printable(str(error)[:200]))
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
