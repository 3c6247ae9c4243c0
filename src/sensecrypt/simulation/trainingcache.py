"""Training results by what they were made from, so that methods that train alike are compared on one training.

Training is deterministic: the same model, data, settings and round give the same weights. A comparison keeps each
result with the processor time that it took, and charges every method with it; a difference between methods is then
never one of two measurements of the same work. What a training takes does not depend on the weights that it starts
from, so its time is charged, too, where methods start from different ones: by rounding, or in clusters.
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
    """What `make` returns and the seconds of work that it took, from `folder` if it was made before.

    Args:
        folder: where results are kept; None: nowhere.
        key: everything besides `vector` that the result depends on.
        vector: the model it starts from.
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
    """The time that was kept for this work; if none was, this one is from now on."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        _write(path, repr(seconds).encode())
        return seconds


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(data)
    partial.replace(path)
