"""Serializes and parses messages: safetensors with a versioned header of strings, parsed strictly, without pickle.

A message is an 8-byte length, a JSON header and raw tensors. Its `__metadata__` contains format, version and kind.
Anything unknown, missing, too large or of the wrong type is `Rejected` with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sensecrypt.errors import Rejected

FORMAT, VERSION = "sensecrypt", "1"
MAX_HEADER = 1 << 16

Tensors = Mapping[str, npt.NDArray[Any]]


def serialize(kind: str, header: Mapping[str, str | int], tensors: Tensors) -> bytes:
    """Return a message. Equal content gives equal bytes: unlike in safetensors, metadata are sorted."""
    fields = {"format": FORMAT, "version": VERSION, "kind": kind}
    fields |= {name: str(value) for name, value in header.items()}
    data = save({name: np.ascontiguousarray(each) for name, each in tensors.items()}, metadata=fields)
    length = int.from_bytes(data[:8], "little")
    ordered = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    ordered += b" " * (-len(ordered) % 8)  # tensors stay aligned
    return len(ordered).to_bytes(8, "little") + ordered + data[8 + length :]


def parse(
    data: bytes, kind: str, *, header: Mapping[str, type], tensors: Mapping[str, tuple[npt.DTypeLike, int]]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and tensors of a message; raise `Rejected` if it is not exactly as described.

    Args:
        data: the message.
        kind: its kind.
        header: names and types (`int` or `str`) of all its fields.
        tensors: names, dtypes and numbers of dimensions of all its tensors.
    """
    fields, arrays = parse_any(data, kind)
    if fields.keys() != header.keys():
        raise Rejected(f"a {kind} message has the fields {', '.join(sorted(header))}")
    try:
        parsed = {name: kind_of(fields[name]) for name, kind_of in header.items()}
    except ValueError:
        raise Rejected(f"damaged {kind} message") from None
    if arrays.keys() != tensors.keys():
        raise Rejected(f"a {kind} message has the tensors {', '.join(sorted(tensors))}")
    for name, (dtype, dimensions) in tensors.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != dimensions:
            raise Rejected(f"tensor {name} of a {kind} message has another type or shape")
    return parsed, arrays


def parse_any(data: bytes, kind: str) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    """Return header and tensors of a message of this kind, with any fields; only for files that we wrote."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(MAX_HEADER, len(data) - 8):
        raise Rejected("truncated message, or a header that is too long")
    try:
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        fields = {str(name): str(value) for name, value in metadata.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Rejected("damaged header") from None
    for name, value in {"format": FORMAT, "version": VERSION, "kind": kind}.items():
        if fields.pop(name, None) != value:
            raise Rejected(f"not a {kind} message of version {VERSION}")
    try:
        return fields, load(data)
    except (ValueError, KeyError, TypeError, OverflowError, SafetensorError):  # KeyError: a dtype that NumPy lacks
        raise Rejected(f"damaged {kind} message") from None
