from __future__ import annotations

import gzip

import numpy as np
import pytest

from sensecrypt import InvalidInput
from sensecrypt.data import formats
from tests.data.official import idx_bytes


def test_idx_images_and_labels_come_back_as_written(tmp_path):
    images = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
    (tmp_path / "images.gz").write_bytes(gzip.compress(idx_bytes(images)))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(idx_bytes(np.array([7, 0, 9], dtype=np.uint8))))
    assert np.array_equal(formats.read_idx_images(tmp_path / "images.gz"), images[:, None])
    labels = formats.read_idx_labels(tmp_path / "labels.gz", classes=10)
    assert labels.tolist() == [7, 0, 9]
    assert labels.dtype == np.int64


@pytest.mark.parametrize(("label_bytes", "labels"), [(1, [3, 9]), (2, [4, 5])])
def test_cifar_records_are_labels_then_planes(tmp_path, label_bytes, labels):
    heads = [[3], [9]] if label_bytes == 1 else [[1, 4], [2, 5]]  # CIFAR-100: coarse, then fine
    pixels = np.arange(3072) % 251
    path = tmp_path / "batch.bin"
    path.write_bytes(b"".join(bytes(head) + bytes(pixels.tolist()) for head in heads))
    images, found = formats.read_cifar(path, label_bytes=label_bytes, classes=10)
    assert found.tolist() == labels
    assert images.shape == (2, 3, 32, 32)
    assert images[1, 2, 0, 5] == pixels[2 * 1024 + 5]  # third plane, first row, sixth column


ZEROS = np.zeros((2, 28, 28), dtype=np.uint8)
COMPRESSED = gzip.compress(idx_bytes(ZEROS))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip at all",
        COMPRESSED[:-9],
        COMPRESSED[:14] + bytes([COMPRESSED[14] ^ 0xFF]) + COMPRESSED[15:],
        gzip.compress(b"\0\0"),
        gzip.compress(idx_bytes(ZEROS)[:-1]),
        gzip.compress(idx_bytes(ZEROS) + b"\0"),
        gzip.compress(idx_bytes(ZEROS[:0])),
        gzip.compress(idx_bytes(ZEROS[:, :27])),
        gzip.compress(idx_bytes(ZEROS[0])),
    ],
    ids=[
        "empty",
        "no-gzip",
        "gzip-cut-off",
        "gzip-altered",
        "no-header",
        "a-byte-less",
        "a-byte-more",
        "no-images",
        "another-shape",
        "one-dimension-less",
    ],
)
def test_damaged_idx_images_name_the_file(tmp_path, content):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        formats.read_idx_images(path)
    assert error.value.argument == str(path)


@pytest.mark.parametrize(
    "content",
    [b"", bytes(3072), bytes(2 * 3073 - 1), bytes([10]) + bytes(3072)],
    ids=["empty", "no-label", "a-byte-less", "label-10"],
)
def test_damaged_cifar_names_the_file(tmp_path, content):
    path = tmp_path / "batch.bin"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        formats.read_cifar(path, label_bytes=1, classes=10)
    assert error.value.argument == str(path)


def test_a_label_beyond_the_classes_and_an_unreadable_path(tmp_path):
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.array([10], dtype=np.uint8))))
    with pytest.raises(InvalidInput, match="label 10"):
        formats.read_idx_labels(path, classes=10)
    with pytest.raises(InvalidInput, match="cannot be read"):
        formats.read_idx_labels(tmp_path, classes=10)
