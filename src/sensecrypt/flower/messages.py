"""The strategy's messages and the nodes' replies, as the wrapper reads and changes them."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import ArrayRecord, Message, RecordDict

from sensecrypt.coordinator.sums import MISMATCH
from sensecrypt.errors import InvalidInput, Refused, Rejected
from sensecrypt.flower.arrays import digest, read_arrays

_NAMED = 3  # nodes per reason, in an error


def same_arrays(messages: list[Message]) -> ArrayRecord:
    """The arrays of all messages, which must be equal."""
    records = [list(message.content.array_records.values()) for message in messages]
    if any(len(each) != 1 for each in records):
        raise InvalidInput("strategy", "sends messages without one ArrayRecord", "send the model in one ArrayRecord")
    first = records[0][0]
    if any(each[0] is not first for each in records):
        marks = {digest(*read_arrays(each[0], whose="the strategy's message")) for each in records}
        if len(marks) != 1:
            fix = "send all nodes of a round the same model: updates of others cannot be added"
            raise InvalidInput("strategy", "sends nodes different models", fix)
    return first


def put_arrays(reply: Message, model: ArrayRecord) -> None:
    """Replace the upload by the mean model."""
    name = next(iter(reply.content.array_records))
    reply.content = RecordDict({key: model if key == name else each for key, each in reply.content.items()})


def failed_round(number: int, error: Rejected | Refused, problems: list[str]) -> str:
    """The rule or check that failed, and the replies that were not used."""
    reason = str(error)
    if getattr(error, "code", "") == MISMATCH:
        reason += ", and too few clients replied to identify the client"
    if "times the weight" in reason or "of the sum" in reason:
        reason += "; SenseCrypt(…, examples=(least, most)) limits what one client counts"
    left = f" (not used: {_grouped(problems)})" if problems else ""
    return f"round {number} is not released: {reason}{left}"


def _grouped(problems: Sequence[str]) -> str:
    """Each reason once, with the first nodes that it holds for."""
    nodes: dict[str, list[str]] = {}
    for each in problems:
        node, _, reason = each.partition(": ")
        nodes.setdefault(reason, []).append(node)
    return "; ".join(f"{_some(each)}: {reason}" for reason, each in nodes.items())


def _some(nodes: list[str]) -> str:
    more = len(nodes) - _NAMED
    return ", ".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
