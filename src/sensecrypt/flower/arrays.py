"""A Flower `ArrayRecord` of any keys, shapes and dtypes as one vector of numbers, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord

from sensecrypt.checks import FloatVector
from sensecrypt.errors import InvalidInput

Arrays = Mapping[str, npt.NDArray[Any]]
_WHOLE = "biu"  # dtypes of counters, such as the number of batches
_SNAP = 1e-4  # means of whole numbers that differ from one by less than this are rounded to it


@dataclass(frozen=True)
class Layout:
    """Keys, shapes and dtypes of an ArrayRecord.

    Attributes:
        keys: of its arrays, in order.
        shapes: one per key.
        dtypes: one per key.
    """

    keys: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of values in all arrays."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    def vector(self, arrays: Arrays) -> FloatVector:
        """All values, array by array."""
        return np.concatenate([np.asarray(arrays[key], dtype=np.float64).ravel() for key in self.keys])

    def record(self, vector: FloatVector) -> ArrayRecord:
        """The vector as arrays: floats in their own dtype, means of whole numbers in float64."""
        arrays, at = {}, 0
        for key, shape, dtype in zip(self.keys, self.shapes, self.dtypes, strict=True):
            count = int(np.prod(shape, dtype=np.int64))
            values = vector[at : at + count].reshape(shape)
            at += count
            if np.dtype(dtype).kind in _WHOLE:
                whole = np.rint(values)
                values = np.where(np.abs(values - whole) < _SNAP, whole, values)
            else:
                values = values.astype(dtype)
            arrays[key] = Array(np.asarray(values))
        return ArrayRecord(arrays)


def read_arrays(record: ArrayRecord, *, whose: str) -> tuple[Arrays, Layout]:
    """The arrays of a record that can be averaged, and their layout.

    Args:
        record: keys and arrays.
        whose: for the error message.
    """
    if not record:
        raise InvalidInput(whose, "has no arrays", "put the model's arrays into the ArrayRecord")
    try:
        arrays = {key: array.numpy() for key, array in record.items()}
    except (TypeError, ValueError, OSError, EOFError):
        problem = "has arrays that are not NumPy's"
        raise InvalidInput(whose, problem, "let sensecrypt_mod be the outermost mod, the first of the list") from None
    for key, array in arrays.items():
        if array.dtype.kind not in f"f{_WHOLE}":
            raise InvalidInput(f"{whose}, {key}", f"has dtype {array.dtype}", "send arrays of real numbers")
        if not np.isfinite(array).all():
            raise InvalidInput(f"{whose}, {key}", "has NaN or infinite values", "check the training for divergence")
    if all(array.dtype.kind in _WHOLE for array in arrays.values()):
        fix = "send the model's floating-point arrays, too: whole numbers alone cannot be averaged"
        raise InvalidInput(whose, "has arrays of whole numbers only", fix)
    kinds = tuple(str(array.dtype) for array in arrays.values())
    layout = Layout(tuple(arrays), tuple(array.shape for array in arrays.values()), kinds)
    if not layout.size:
        raise InvalidInput(whose, "has no numbers", "put the model's arrays into the ArrayRecord")
    return arrays, layout


def digest(arrays: Arrays, layout: Layout) -> str:
    """A hash of a model: keys, shapes, dtypes and values."""
    head = json.dumps([layout.keys, layout.shapes, layout.dtypes]).encode()
    state = hashlib.sha256(len(head).to_bytes(8, "little") + head)
    for key in layout.keys:
        state.update(np.ascontiguousarray(arrays[key]).tobytes())
    return state.hexdigest()
