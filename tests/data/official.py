"""Tiny data sets in the official formats and layout."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

RECORDS = {"mnist": (12, 5), "fashion-mnist": (12, 5), "cifar-10": (10, 3), "cifar-100": (7, 4)}


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


def write_dataset(name: str, folder: Path) -> None:
    """Random pixels; label i of a file is i modulo the number of classes."""
    rng = np.random.default_rng(len(name))
    train, test = RECORDS[name]
    if name.startswith("cifar"):
        cifar_10 = name == "cifar-10"
        root = folder / ("cifar-10-batches-bin" if cifar_10 else "cifar-100-binary")
        batches = [f"data_batch_{number}" for number in range(1, 6)] if cifar_10 else ["train"]
        sizes = [train // len(batches)] * len(batches) + [test]
        root.mkdir(parents=True)
        for file, size in zip([*batches, "test_batch" if cifar_10 else "test"], sizes, strict=True):
            heads = [[i] if cifar_10 else [19, i] for i in range(size)]
            (root / f"{file}.bin").write_bytes(b"".join(bytes(head) + rng.bytes(3072) for head in heads))
    else:
        (folder / name).mkdir(parents=True)
        for prefix, size in (("train", train), ("t10k", test)):
            images = rng.integers(0, 256, (size, 28, 28), dtype=np.uint8)
            labels = (np.arange(size) % 10).astype(np.uint8)
            for part, array in (("images-idx3", images), ("labels-idx1", labels)):
                (folder / name / f"{prefix}-{part}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array)))
