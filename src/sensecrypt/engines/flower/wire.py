"""Our messages inside Flower's: named parts of bytes in one ArrayRecord, checked before anything parses them."""

from __future__ import annotations

from collections.abc import Mapping, Set

from flwr.app import Array, ArrayRecord, RecordDict

from sensecrypt.errors import Rejected

RECORD = "sensecrypt"
STYPE = "sensecrypt.message.v1"
FAILURE = "failure"  # the one part of a reply that says why there is no other
_LONGEST_FAILURE = 400

Parts = dict[str, bytes]


def pack(parts: Mapping[str, bytes]) -> RecordDict:
    """A message's content."""
    arrays = {name: Array(dtype="bytes", shape=(len(data),), stype=STYPE, data=data) for name, data in parts.items()}
    return RecordDict({RECORD: ArrayRecord(arrays)})


def unpack(content: RecordDict, *, needed: Set[str], allowed: Set[str] = frozenset()) -> Parts:
    """The parts of a message, or `Rejected`: all that are `needed`, and none but those and the `allowed`."""
    record = content.get(RECORD)
    if set(content) != {RECORD} or not isinstance(record, ArrayRecord):
        raise Rejected("not a message of sensecrypt")
    parts = {}
    for name, array in record.items():
        if array.stype != STYPE or array.dtype != "bytes" or tuple(array.shape) != (len(array.data),):
            raise Rejected(f"part {printable(name[:20])} of a message is of another kind, or of another version")
        parts[name] = array.data
    if set(parts) == {FAILURE}:
        raise Rejected(printable(parts[FAILURE][:_LONGEST_FAILURE].decode(errors="replace")))
    if not needed <= set(parts) or not set(parts) <= needed | allowed:
        raise Rejected(f"a message with the parts {printable(', '.join(sorted(parts))[:80])}")
    return parts


def printable(text: str) -> str:
    """Somebody else's words, for logs and tables: one line, nothing that a terminal would obey."""
    return "".join(character if character.isprintable() else "·" for character in text)
