"""Loads data sets by name, unchanged: unsigned bytes, the publisher's split into training and test samples."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sensecrypt.checks import IntVector
from sensecrypt.data import download, formats
from sensecrypt.data.formats import Images
from sensecrypt.errors import InvalidInput

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar-10", "cifar-100")
FOLDER_VARIABLE = "SENSECRYPT_DATA"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images and their classes.

    Attributes:
        name: one of `DATASETS`.
        train_images: (N, channels, height, width), 0 … 255.
        train_labels: (N,), 0 … classes − 1.
        test_images: like train_images.
        test_labels: like train_labels.
        classes: number of classes.
    """

    name: str
    train_images: Images
    train_labels: IntVector
    test_images: Images
    test_labels: IntVector
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width

    def __repr__(self) -> str:
        sizes = f"{len(self.train_labels):,} training and {len(self.test_labels):,} test images"
        return f"Dataset({self.name}: {sizes} of shape {self.shape}, {self.classes} classes)"


def load_dataset(name: str, *, folder: Path | None = None) -> Dataset:
    """Return a data set; download it if it is not in the cache.

    Args:
        name: `digits` (part of scikit-learn), `mnist`, `fashion-mnist`, `cifar-10` or `cifar-100` (fine labels).
        folder: the folder of the official files; None: the folder in $SENSECRYPT_DATA, else the user's cache. Missing
            files are downloaded only to the cache.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(str(name).lower(), DATASETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(DATASETS)}"
        raise InvalidInput("dataset", f"there is no data set {name!r}", hint)
    if name == "digits":
        return _digits()
    files = _locate(name, folder)
    if name == "cifar-10":
        return Dataset(name, *_cifar(files[:-1], 1, 10), *_cifar(files[-1:], 1, 10), 10)
    if name == "cifar-100":
        return Dataset(name, *_cifar(files[:-1], 2, 100), *_cifar(files[-1:], 2, 100), 100)
    return Dataset(name, *_idx(files[0], files[1]), *_idx(files[2], files[3]), 10)


def data_folder() -> Path:
    """Return the folder of the data sets: the one in $SENSECRYPT_DATA, else the user's cache."""
    variable = os.environ.get(FOLDER_VARIABLE)
    if variable:
        return Path(variable).expanduser()
    import pooch

    return Path(pooch.os_cache("sensecrypt"))


def is_there(name: str) -> bool:
    """Return whether all files of a data set are in the data folder; download nothing."""
    sources = download.SOURCES.get(name, ())
    return all((data_folder() / file).is_file() for source in sources for file in source.files)


def _locate(name: str, folder: Path | None) -> list[Path]:
    """Return the files of a data set; raise if one is missing."""
    sources = download.SOURCES[name]
    variable = os.environ.get(FOLDER_VARIABLE)
    if folder is not None or variable:
        root = Path(folder or variable or "").expanduser()
        fix = f"unset {FOLDER_VARIABLE}" if folder is None else f"leave the folder out, with {FOLDER_VARIABLE} unset,"
        for source in sources:
            for file in source.files:
                if not (root / file).is_file():
                    problem, get = f"{root / file} is missing", f"put the official files there ({source.url})"
                    argument = FOLDER_VARIABLE if folder is None else "folder"
                    raise InvalidInput(argument, problem, f"{get}, or {fix} to download them")
    else:
        root = data_folder()
        download.download_missing(sources, root)
    return [root / file for source in sources for file in source.files]


def _digits() -> Dataset:
    """Return scikit-learn's digits; the last fifth of each class is the test set, so the split is not random."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images.astype(np.int64) * 255 // 16).astype(np.uint8)[:, None]
    labels = np.asarray(bunch.target, dtype=np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        members = np.flatnonzero(labels == label)
        test[members[-(len(members) // 5) :]] = True
    return Dataset("digits", images[~test], labels[~test], images[test], labels[test], 10)


def _idx(images_file: Path, labels_file: Path) -> tuple[Images, IntVector]:
    images, labels = formats.read_idx_images(images_file), formats.read_idx_labels(labels_file, classes=10)
    if len(images) != len(labels):
        problem = f"has {len(labels):,} labels for the {len(images):,} images of {images_file.name}"
        raise InvalidInput(str(labels_file), problem, "download both official files again")
    return images, labels


def _cifar(files: list[Path], label_bytes: int, classes: int) -> tuple[Images, IntVector]:
    parts = [formats.read_cifar(file, label_bytes=label_bytes, classes=classes) for file in files]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])
