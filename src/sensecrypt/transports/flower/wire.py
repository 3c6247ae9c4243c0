"""Our messages inside Flower's: named parts of bytes in one ArrayRecord, checked before they are parsed."""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, RecordDict

from sensecrypt.errors import Rejected
from sensecrypt.protocol.requests import Parts, printable

RECORD = "sensecrypt"
STYPE = "sensecrypt.message.v1"


def pack(parts: Mapping[str, bytes]) -> RecordDict:
    """The content of a message with these parts."""
    arrays = {name: Array(dtype="bytes", shape=(len(data),), stype=STYPE, data=data) for name, data in parts.items()}
    return RecordDict({RECORD: ArrayRecord(arrays)})


def unpack(content: RecordDict) -> Parts:
    """The parts of a message, not parsed; `Rejected` if it is not one of ours."""
    record = content.get(RECORD)
    if set(content) != {RECORD} or not isinstance(record, ArrayRecord):
        raise Rejected("not a message of sensecrypt")
    parts = {}
    for name, array in record.items():
        if array.stype != STYPE or array.dtype != "bytes" or tuple(array.shape) != (len(array.data),):
            raise Rejected(f"part {printable(name[:20])} of a message is of another kind, or of another version")
        parts[name] = array.data
    return parts
