from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sensecrypt import InvalidInput
from sensecrypt.data import datasets, download, load_dataset
from tests.data.official import RECORDS, idx_bytes, write_dataset

SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "cifar-100": (3, 32, 32)}
FILES = [(name, file) for name, sources in download.SOURCES.items() for source in sources for file in source.files]
REAL = os.environ.get("SENSECRYPT_DATA")


def test_digits_is_the_whole_of_scikit_learns_set_and_stratified():
    digits, bunch = load_dataset("digits"), load_digits()
    assert digits.shape == (1, 8, 8)
    images = np.concatenate([digits.train_images, digits.test_images])[:, 0]
    found = sorted(image.tobytes() for image in images)
    assert found == sorted((image * 255 // 16).astype(np.uint8).tobytes() for image in bunch.images)
    assert images.max() == 255
    train, test = np.bincount(digits.train_labels), np.bincount(digits.test_labels)
    assert (train + test).tolist() == np.bincount(bunch.target).tolist()
    assert np.allclose(test / (train + test), 0.2, atol=0.01)
    assert np.array_equal(load_dataset("digits").test_images, digits.test_images)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("by_variable", [False, True])
def test_official_layout(tmp_path, monkeypatch, name, by_variable):
    write_dataset(name, tmp_path)
    monkeypatch.setenv("SENSECRYPT_DATA", str(tmp_path if by_variable else tmp_path / "elsewhere"))
    data = load_dataset(name, folder=None if by_variable else tmp_path)
    assert (len(data.train_labels), len(data.test_labels)) == RECORDS[name]
    assert data.train_images.shape[1:] == data.test_images.shape[1:] == SHAPES[name] == data.shape
    assert data.test_labels.tolist() == list(range(RECORDS[name][1]))
    assert data.train_labels.dtype == np.int64
    assert data.train_images.dtype == np.uint8
    assert data.train_images.flags.writeable
    assert name in repr(data)


@pytest.mark.parametrize(("name", "file"), FILES)
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_missing_file_is_named_with_both_ways_to_get_it(tmp_path, monkeypatch, name, file, by_variable):
    write_dataset(name, tmp_path)
    (tmp_path / file).unlink()
    monkeypatch.setattr(download, "download_missing", None)  # a folder that somebody chose is never written to
    if by_variable:
        monkeypatch.setenv("SENSECRYPT_DATA", str(tmp_path))
    with pytest.raises(InvalidInput) as error:
        load_dataset(name, folder=None if by_variable else tmp_path)
    assert error.value.argument == ("SENSECRYPT_DATA" if by_variable else "folder")
    assert str(tmp_path / file) in error.value.problem
    assert "official files" in error.value.fix
    assert "to download" in error.value.fix


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_truncated_file_is_named(tmp_path, name, file):
    write_dataset(name, tmp_path)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:-1])
    with pytest.raises(InvalidInput) as error:
        load_dataset(name, folder=tmp_path)
    assert error.value.argument == str(tmp_path / file)


def test_more_images_than_labels(tmp_path):
    write_dataset("mnist", tmp_path)
    labels = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.zeros(4, dtype=np.uint8))))
    with pytest.raises(InvalidInput, match="4 labels for the 5 images") as error:
        load_dataset("mnist", folder=tmp_path)
    assert error.value.argument == str(labels)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("MNIST", "'mnist'"), ("cifar10", "'cifar-10'"), ("fashion_mnist", "'fashion-mnist'"), ("?", "digits, mnist")],
)
def test_an_unknown_name_gets_the_nearest(name, hint):
    with pytest.raises(InvalidInput) as error:
        load_dataset(name)
    assert error.value.argument == "dataset"
    assert hint in error.value.fix


@pytest.mark.real_data
@pytest.mark.skipif(not REAL, reason="SENSECRYPT_DATA is not set")
@pytest.mark.parametrize("name", RECORDS)
def test_real_data(name):
    folder = Path(REAL or "")
    missing = [file for owner, file in FILES if owner == name and not (folder / file).is_file()]
    if missing:
        pytest.skip(f"SENSECRYPT_DATA has no {missing[0]}")
    data = load_dataset(name)
    assert data.shape == SHAPES[name]
    assert set(data.train_labels) == set(data.test_labels) == set(range(data.classes))
    assert data.train_images.std() > 20  # photographs and drawings, not blank
    if name != "cifar-100":  # of which a subset is enough
        assert (len(data.train_labels), len(data.test_labels)) == (50_000 if "cifar" in name else 60_000, 10_000)


def test_every_name_but_digits_has_a_source():
    assert set(datasets.DATASETS) == {"digits", *download.SOURCES}
