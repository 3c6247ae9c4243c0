"""The official file formats: IDX (MNIST, Fashion-MNIST) and the binary version of CIFAR.

Every reader compares the file's length with its header or record size. A truncated download is an error that names the
file, and never a shorter data set.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sensecrypt.checks import IntVector
from sensecrypt.errors import InvalidInput

Images = npt.NDArray[np.uint8]

CIFAR_SHAPE = (3, 32, 32)
_UNSIGNED_BYTE = 8  # IDX type code of both families


def read_idx_images(path: Path, *, shape: tuple[int, int] = (28, 28)) -> Images:
    """Return the images of a gzipped IDX3 file as (N, 1, height, width)."""
    images = _read_idx(path, dimensions=3)
    if images.shape[1:] != shape:
        raise _damaged(path, f"has images of {images.shape[1]} x {images.shape[2]}, not {shape[0]} x {shape[1]}")
    return images[:, None]


def read_idx_labels(path: Path, *, classes: int) -> IntVector:
    """Return the labels of a gzipped IDX1 file, each below `classes`."""
    return _labels(path, _read_idx(path, dimensions=1), classes)


def read_cifar(path: Path, *, label_bytes: int, classes: int) -> tuple[Images, IntVector]:
    """Return images (N, 3, 32, 32) and labels of a CIFAR file, whose records are labels followed by colour planes.

    Args:
        path: the file.
        label_bytes: 1 in CIFAR-10; 2 in CIFAR-100, coarse before fine. The last byte is the label.
        classes: number of classes; every label is smaller.
    """
    content = _content(path)
    record = label_bytes + math.prod(CIFAR_SHAPE)
    if not content or len(content) % record:
        raise _damaged(path, f"has {len(content):,} bytes, which is not a multiple of its {record:,}-byte records")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    images = np.ascontiguousarray(records[:, label_bytes:]).reshape(-1, *CIFAR_SHAPE)
    return images, _labels(path, records[:, label_bytes - 1], classes)


def _read_idx(path: Path, *, dimensions: int) -> npt.NDArray[np.uint8]:
    """Return an IDX array. Format: two zero bytes, type code, number of dimensions, big-endian 32-bit sizes, data."""
    try:
        content = gzip.decompress(_content(path))
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise _damaged(path, "is not a complete gzip file") from None
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, _UNSIGNED_BYTE, dimensions]):
        raise _damaged(path, f"is not an IDX file of {dimensions}-dimensional bytes")
    shape = [int.from_bytes(content[at : at + 4]) for at in range(4, header, 4)]
    if not shape[0] or math.prod(shape) != len(content) - header:
        raise _damaged(path, f"should have {math.prod(shape):,} bytes of data and has {len(content) - header:,}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()


def _labels(path: Path, labels: npt.NDArray[np.uint8], classes: int) -> IntVector:
    if labels.max() >= classes:
        raise _damaged(path, f"has label {labels.max()}, but the data set has {classes} classes")
    return labels.astype(np.int64)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InvalidInput(str(path), problem, "check the path and its permissions") from None


def _damaged(path: Path, problem: str) -> InvalidInput:
    return InvalidInput(str(path), problem, "delete it and download the official file again")
