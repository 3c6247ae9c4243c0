"""Downloads missing official files, completely or not at all, and compares them with published hashes."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sensecrypt.errors import InvalidInput


@dataclass(frozen=True)
class Source:
    """An official download.

    Attributes:
        url: the address.
        md5: the publisher's checksum, which detects damage, not forgery.
        files: paths below the data folder: of the data file, or of the files to extract from a `.tar.gz`.
    """

    url: str
    md5: str
    files: tuple[str, ...]


def _idx_sources(name: str, site: str, hashes: Sequence[str]) -> tuple[Source, ...]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = [f"{part}-ubyte.gz" for part in parts]
    return tuple(Source(site + file, md5, (f"{name}/{file}",)) for file, md5 in zip(files, hashes, strict=True))


# The files of a data set are listed in the order in which they are read: training before test, images before labels.
SOURCES: dict[str, tuple[Source, ...]] = {
    "mnist": _idx_sources(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "fashion-mnist": _idx_sources(
        "fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "cifar-10": (
        Source(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            (
                *(f"cifar-10-batches-bin/data_batch_{batch}.bin" for batch in range(1, 6)),
                "cifar-10-batches-bin/test_batch.bin",
            ),
        ),
    ),
    "cifar-100": (
        Source(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin"),
        ),
    ),
}


def download_missing(sources: Sequence[Source], folder: Path) -> None:
    """Download each source of which a file is missing below `folder`; a failed download leaves no files."""
    for source in sources:
        if all((folder / file).is_file() for file in source.files):
            continue
        try:
            _fetch(source, folder)
        except (OSError, tarfile.TarError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise _failed(source, folder, f"cannot be downloaded to {folder} ({reason})") from None
        except ValueError:
            raise _failed(source, folder, "was downloaded, but its checksum differs from the publisher's") from None


def _fetch(source: Source, folder: Path) -> None:
    import pooch

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as name:  # on the same disk, so that moving files is atomic
        scratch = Path(name)
        fetched = Path(pooch.retrieve(source.url, f"md5:{source.md5}", fname=Path(source.url).name, path=scratch))
        if source.url.endswith(".tar.gz"):
            with tarfile.open(fetched) as archive:
                for file in source.files:
                    _unpack(archive, file, scratch)
        else:
            (scratch / source.files[0]).parent.mkdir(parents=True)
            fetched.rename(scratch / source.files[0])
        for file in source.files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (scratch / file).replace(folder / file)


def _unpack(archive: tarfile.TarFile, file: str, folder: Path) -> None:
    """Write the bytes of one regular file; names, links, owners and modes of the archive are ignored."""
    content = archive.extractfile(file)
    if content is None:
        raise tarfile.ExtractError(f"{file} is not a regular file")
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    with content, (folder / file).open("wb") as target:
        shutil.copyfileobj(content, target)


def _failed(source: Source, folder: Path, problem: str) -> InvalidInput:
    fix = f"check the network, or put the official files into {folder / Path(source.files[0]).parent}"
    return InvalidInput(source.url, problem, fix)
