from __future__ import annotations

import sys

import matplotlib
import numpy as np
import pytest

from sensecrypt import InvalidInput, SenseCryptError
from sensecrypt.errors import MissingExtra
from sensecrypt.lab.attacks.pictures import draw_recovered


def images(channels=1, count=3, seed=0):
    return np.random.default_rng(seed).random((count, channels, 12, 12))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_written_whole_and_the_same_each_time(tmp_path, channels):
    truth = images(channels)
    rows = {"zero-fill $x": images(channels, seed=1) * 9 - 4, "mask-aware, a long name of an attack": truth[::-1]}
    one = draw_recovered(tmp_path / "deep" / "one.png", truth, rows, title="MNIST, 3.1 % hidden")
    with matplotlib.rc_context({"font.size": 30, "image.cmap": "viridis"}):
        same = draw_recovered(tmp_path / "same.png", truth, rows, title="MNIST, 3.1 % hidden")
    assert one.read_bytes() == same.read_bytes()
    assert one.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "one.png", "same.png"]


def test_recovered_images_stand_below_their_originals_whatever_their_order(tmp_path):
    truth = images()
    one = draw_recovered(tmp_path / "one.png", truth, {"attack": truth})
    other = draw_recovered(tmp_path / "other.png", truth, {"attack": truth[[2, 0, 1]]})
    assert one.read_bytes() == other.read_bytes()


def test_wrong_images_leave_no_file(tmp_path):
    with pytest.raises(InvalidInput, match="originals"):
        draw_recovered(tmp_path / "a.png", images(2), {})
    with pytest.raises(InvalidInput, match="recovered"):
        draw_recovered(tmp_path / "a.png", images(), {"attack": images(count=2)})
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"\[lab\]") as error:
        draw_recovered(tmp_path / "a.png", images(), {})
    assert isinstance(error.value, SenseCryptError)
    assert not list(tmp_path.iterdir())
