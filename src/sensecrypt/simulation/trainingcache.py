"""A cache of training results, so that a comparison trains once for all methods that train the same.

Training is deterministic: the same model, data, settings and round give the same weights. A comparison keeps each
result with its processor time and counts that time for every method, so that two measurements of the same work never
look like a difference between methods. The time does not depend on the initial weights, so methods share it even if
their weights differ by rounding or by cluster.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import Rejected
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.worktime import work_seconds

Vector = npt.NDArray[np.float32]


def timed(
    folder: Path | None, key: tuple[object, ...], vector: Vector, make: Callable[[], Vector]
) -> tuple[Vector, float]:
    """Return the result of `make` and its seconds of work, from the cache in `folder` if present.

    Args:
        folder: the folder of the cache; None: no cache.
        key: everything besides `vector` that the result depends on.
        vector: the initial model.
        make: computes the result.
    """
    path = None
    if folder is not None:
        path = folder / hashlib.sha256(repr(key).encode() + vector.tobytes()).hexdigest()
        if path.exists():
            try:
                header, tensors = parse_any(path.read_bytes(), "training")
                return tensors["result"], float(header["seconds"])
            except (Rejected, KeyError, ValueError):
                path.unlink()
    start = work_seconds()
    result = make()
    seconds = work_seconds() - start
    if folder is not None and path is not None:
        seconds = _first_measured(folder / f"seconds-{hashlib.sha256(repr(key).encode()).hexdigest()}", seconds)
        _write(path, serialize("training", {"seconds": repr(seconds)}, {"result": result}))
    return result, seconds


def _first_measured(path: Path, seconds: float) -> float:
    """Return the seconds kept for this work; if there are none, keep and return `seconds`."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        _write(path, repr(seconds).encode())
        return seconds


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(data)
    partial.replace(path)
