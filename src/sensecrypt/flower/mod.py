"""The client's side: a mod that lets the app train, and sends its update encrypted instead of its arrays."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from sensecrypt.checks import FloatVector
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.flower.arrays import Arrays, Layout, digest, read_arrays
from sensecrypt.flower.coding import encode
from sensecrypt.flower.instructions import RECORD, Instructions, pack_reply
from sensecrypt.flower.node import Node, RoundKeys, node_of
from sensecrypt.flower.selecting import read_mask
from sensecrypt.protocol.protection import protect_model

_LOG = logging.getLogger("flwr.sensecrypt")
_FAILED = 1001  # what Flower's own mods answer with where something they need is not there
_NO_WRAPPER = "the message has no instructions of SenseCrypt, so nothing is sent; wrap the ServerApp's strategy: "
_EXAMPLE = 'strategy = SenseCrypt(strategy, key_service="in-process")'
_T = TypeVar("_T")


def sensecrypt_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Train as the app does, and reply with the encrypted update: nothing leaves in the clear but metrics.

    Messages of other kinds than training pass as they are. It stands first in the list of mods.
    """
    if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
        return call_next(message, context)
    try:
        told = _instructions(message)
        with node_of(context, told) as node:
            return _play(message, context, call_next, told, node)
    except SenseCryptError as error:
        _LOG.error("sensecrypt_mod: %s", error)
        return Message(Error(_FAILED, f"sensecrypt_mod: {error}"), reply_to=message)


def _instructions(message: Message) -> Instructions:
    record = message.content.config_records.get(RECORD)
    if record is None:
        raise Rejected(_NO_WRAPPER + _EXAMPLE)
    return Instructions.from_record(record)


def _play(message: Message, context: Context, call_next: ClientAppCallable, told: Instructions, node: Node) -> Message:
    _, record = _only(message.content.array_records, "the message", "ArrayRecord")
    start, layout = read_arrays(record, whose="the message")
    given = node.begin(told, layout, digest(start, layout), digest(start, layout, told.terms.text))
    message.content = RecordDict({name: each for name, each in message.content.items() if name != RECORD})
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    name, trained = _only(reply.content.array_records, "the reply", "ArrayRecord")
    after, found = read_arrays(trained, whose="the reply")
    if (found.keys, found.shapes) != (layout.keys, layout.shapes):
        raise InvalidInput("the reply", "has arrays of another model", "return the arrays that the message had")
    update = _difference(after, start, layout)
    upload, tag = _protected(update, _examples(reply, told), told, given, node)
    content = {key: each for key, each in reply.content.items() if key != name}
    reply.content = RecordDict({**content, name: pack_reply(upload, tag)})
    return reply


def _protected(
    update: FloatVector, examples: float, told: Instructions, given: RoundKeys, node: Node
) -> tuple[bytes, bytes | None]:
    """The upload; and the tag, where no second server takes it."""
    round_, terms = given.round, told.terms
    vector, longer = encode(update, examples, terms, round_, told.client)
    if longer:
        _LOG.warning("the update is longer than the bound of %g and is clipped to it: SenseCrypt(clip=…)", terms.bound)
    mask = read_mask(told.mask, round_)
    node.require_mask(mask)
    sent = protect_model(vector, mask, round_, client=told.client, key=given.key, seed=given.seed, blinded=True)
    return sent.upload, node.hand_in(sent.tag, round_, round(terms.counted(examples)))


def _difference(after: Arrays, start: Arrays, layout: Layout) -> FloatVector:
    return layout.vector(after) - layout.vector(start)


def _examples(reply: Message, told: Instructions) -> float:
    """How many examples the app says that it trained on."""
    _, metrics = _only(reply.content.metric_records, "the reply", "MetricRecord")
    value = metrics.get(told.weighted_by)
    if isinstance(value, list) or value is None or not np.isfinite(value) or value <= 0:
        fix = f'return it in the MetricRecord: {{"{told.weighted_by}": len(data)}}'
        raise InvalidInput(told.weighted_by, "is no positive number in the reply", fix)
    return float(value)


def _only(records: Mapping[str, _T], whose: str, kind: str) -> tuple[str, _T]:
    """The one record of a kind, and its key."""
    if len(records) != 1:
        raise InvalidInput(whose, f"has {len(records)} {kind}s", f"put everything into one {kind}")
    return next(iter(records.items()))
