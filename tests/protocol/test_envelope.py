"""Equal messages are equal bytes, whatever order their header was given in."""

from __future__ import annotations

import json

import numpy as np

from sensecrypt.protocol.envelope import parse_any, serialize


def test_the_header_is_in_order_and_tensors_stay_aligned():
    tensors = {"b": np.arange(5, dtype=np.int64), "a": np.ones((2, 3), dtype=np.float32)}
    header = {f"field-{number}": number for number in range(12)}
    protected = {
        serialize("test", dict(sorted(header.items(), reverse=turned)), dict(sorted(tensors.items(), reverse=turned)))
        for turned in (False, True)
        for _ in range(20)
    }
    [data] = protected
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    names = list(json.loads(data[8 : 8 + length])["__metadata__"])
    assert names == sorted(names)
    fields, arrays = parse_any(data, "test")
    assert fields == {name: str(value) for name, value in header.items()}
    assert all(np.array_equal(arrays[name], tensor) for name, tensor in tensors.items())
