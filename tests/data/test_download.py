from __future__ import annotations

import functools
import hashlib
import http.server
import tarfile
import threading

import pooch
import pytest

from sensecrypt import InvalidInput
from sensecrypt.data import download, load_dataset
from sensecrypt.data.download import SOURCES, Source, download_missing
from tests.data.official import RECORDS, write_dataset


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder, and the address at which a server on this machine offers it."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def offer(name, site):
    """The data set's sources, moved to the site and filled with a tiny data set."""
    folder, address = site
    write_dataset(name, folder)
    moved = []
    for source in SOURCES[name]:
        file = source.files[0]
        if source.url.endswith(".tar.gz"):
            file = f"{name}.tar.gz"
            with tarfile.open(folder / file, "w:gz") as archive:
                archive.add(folder / source.files[0].split("/")[0], source.files[0].split("/")[0])
        md5 = hashlib.md5((folder / file).read_bytes(), usedforsecurity=False).hexdigest()
        moved.append(Source(f"{address}/{file}", md5, source.files))
    return tuple(moved)


@pytest.mark.parametrize("name", RECORDS)
def test_missing_files_are_fetched_into_the_cache_once(tmp_path, monkeypatch, site, name):
    monkeypatch.setitem(SOURCES, name, offer(name, site))
    monkeypatch.setenv("SENSECRYPT_DATA", "")  # empty counts as unset
    cache = tmp_path / "new" / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda project: cache)
    data = load_dataset(name)
    assert (len(data.train_labels), len(data.test_labels)) == RECORDS[name]
    files = {file for source in SOURCES[name] for file in source.files}
    assert {path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file()} == files
    assert len(list(cache.iterdir())) == 1  # no scratch folder stays

    monkeypatch.setattr(download, "_fetch", None)
    assert (load_dataset(name).train_images == data.train_images).all()


@pytest.mark.parametrize("name", ["mnist", "cifar-100"])
def test_a_wrong_hash_leaves_nothing(tmp_path, site, name):
    first, *_ = offer(name, site)
    with pytest.raises(InvalidInput, match="checksum") as error:
        download_missing([Source(first.url, "0" * 32, first.files)], tmp_path / "cache")
    assert error.value.argument == first.url
    assert "\n" not in str(error.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_network_is_one_clear_line_and_leaves_nothing(tmp_path, site):
    first, *_ = offer("mnist", site)
    for url in (f"{site[1]}/absent.gz", "http://127.0.0.1:9/refused.gz"):
        with pytest.raises(InvalidInput, match="cannot be downloaded") as error:
            download_missing([Source(url, first.md5, first.files)], tmp_path / "cache")
        assert "\n" not in str(error.value)
        assert "check the network" in error.value.fix
        assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path, site):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidInput, match=r"File exists|Not a directory"):
        download_missing(offer("mnist", site), tmp_path / "file")


def test_hashes_and_addresses_are_well_formed():
    for source in (source for sources in SOURCES.values() for source in sources):
        assert len(bytes.fromhex(source.md5)) == 16
        assert source.url.startswith(("https://", "http://"))
        assert len(source.files) == 1 or source.url.endswith(".tar.gz")
