"""Messages to many nodes, and their replies as they arrive, until everybody has answered or time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from sensecrypt.engines.flower.wire import pack
from sensecrypt.errors import Rejected

_PAUSE = 0.5  # seconds between two looks


@dataclass(frozen=True, eq=False)
class Reply:
    """A node's answer.

    Attributes:
        node: which.
        sent: what it sent; None: nothing, because it is gone, failed or too late.
        failure: why there is nothing.
    """

    node: int
    sent: RecordDict | None
    failure: str = ""

    @property
    def content(self) -> RecordDict:
        """What it sent, or `Rejected`."""
        if self.sent is None:
            raise Rejected(self.failure)
        return self.sent


def ask(grid: Grid, kind: str, requests: Mapping[int, Mapping[str, bytes]], *, seconds: float) -> Iterator[Reply]:
    """Send each node its request; its reply, or that there is none, exactly once a node.

    Args:
        grid: Flower's way to the nodes.
        kind: of the messages, by which a ClientApp knows what to do.
        requests: the parts of each node's message.
        seconds: after which nobody is waited for; a node that comes back later does not find its message any more.
    """
    end = time.monotonic() + seconds
    messages = [Message(pack(parts), node, kind, ttl=seconds) for node, parts in requests.items()]
    waiting = dict(zip(grid.push_messages(messages), requests, strict=True))
    while waiting:
        for message in grid.pull_messages(list(waiting)):
            node = waiting.pop(message.metadata.reply_to_message_id, None)
            if node is None:
                continue
            if message.has_error():
                yield Reply(node, None, f"the node failed ({str(message.error.reason)[:200]})")
            else:
                yield Reply(node, message.content)
        if time.monotonic() >= end:
            break
        if waiting:
            time.sleep(_PAUSE)
    for node in waiting.values():
        yield Reply(node, None, f"no answer within {seconds:.0f} s")
