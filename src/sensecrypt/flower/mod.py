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
from sensecrypt.flower.arrays import digest, read_arrays
from sensecrypt.flower.coding import encode
from sensecrypt.flower.instructions import RECORD, Instructions, pack_reply
from sensecrypt.flower.node import Node, RoundKeys, node_of
from sensecrypt.flower.selecting import read_mask
from sensecrypt.protocol.protection import protect_model

_LOG = logging.getLogger("flwr.sensecrypt")
_FAILED = 1001  # the error code of Flower's own mods for a missing precondition
_NO_WRAPPER = "the message has no instructions of SenseCrypt, so nothing is sent; wrap the ServerApp's strategy: "
_EXAMPLE = 'strategy = SenseCrypt(strategy, key_service="in-process")'
_T = TypeVar("_T")


def sensecrypt_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Train as the app does, and reply with the encrypted update; only metrics are sent in the clear.

    Messages of other kinds than training pass unchanged. This mod must be the first in the list of mods.
    """
    if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
        return call_next(message, context)
    try:
        instructions = _read_instructions(message)
        with node_of(context, instructions) as node:
            return _train(message, context, call_next, instructions, node)
    except SenseCryptError as error:
        _LOG.error("sensecrypt_mod: %s", error)
        return Message(Error(_FAILED, f"sensecrypt_mod: {error}"), reply_to=message)


def _read_instructions(message: Message) -> Instructions:
    record = message.content.config_records.get(RECORD)
    if record is None:
        raise Rejected(_NO_WRAPPER + _EXAMPLE)
    return Instructions.from_record(record)


def _train(
    message: Message, context: Context, call_next: ClientAppCallable, instructions: Instructions, node: Node
) -> Message:
    _, record = _only(message.content.array_records, "the message", "ArrayRecord")
    start, layout = read_arrays(record, whose="the message")
    keys = node.begin(instructions, layout, digest(start, layout))
    message.content = RecordDict({name: each for name, each in message.content.items() if name != RECORD})
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    name, trained = _only(reply.content.array_records, "the reply", "ArrayRecord")
    after, found = read_arrays(trained, whose="the reply")
    if (found.keys, found.shapes) != (layout.keys, layout.shapes):
        raise InvalidInput("the reply", "has arrays of another model", "return the arrays that the message had")
    update = layout.vector(after) - layout.vector(start)
    upload, tag = _protect(update, _examples(reply, instructions), instructions, keys, node)
    content = {key: each for key, each in reply.content.items() if key != name}
    reply.content = RecordDict({**content, name: pack_reply(upload, tag)})
    return reply


def _protect(
    update: FloatVector, examples: float, instructions: Instructions, keys: RoundKeys, node: Node
) -> tuple[bytes, bytes | None]:
    """The upload, and the tag if it has to travel with the reply."""
    round_, terms, client = keys.round, instructions.terms, instructions.client
    vector, clipped = encode(update, examples, terms, round_, client)
    if clipped:
        _LOG.warning("the update is longer than the bound of %g and is clipped to it: SenseCrypt(clip=…)", terms.bound)
    mask = read_mask(instructions.mask, round_)
    node.require_mask(mask)
    protected = protect_model(vector, mask, round_, client=client, key=keys.key, seed=keys.seed, blinded=True)
    return protected.upload, node.hand_in(protected.tag, round_, round(terms.counted(examples)))


def _examples(reply: Message, instructions: Instructions) -> float:
    """The number of examples that the app reports."""
    _, metrics = _only(reply.content.metric_records, "the reply", "MetricRecord")
    value = metrics.get(instructions.weighted_by)
    if isinstance(value, list) or value is None or not np.isfinite(value) or value <= 0:
        fix = f'return it in the MetricRecord: {{"{instructions.weighted_by}": len(data)}}'
        raise InvalidInput(instructions.weighted_by, "is no positive number in the reply", fix)
    return float(value)


def _only(records: Mapping[str, _T], whose: str, kind: str) -> tuple[str, _T]:
    """The one record of a kind, and its key."""
    if len(records) != 1:
        raise InvalidInput(whose, f"has {len(records)} {kind}s", f"put everything into one {kind}")
    return next(iter(records.items()))
