from __future__ import annotations

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments.specs import read_spec

TEXT = """
differs = ["ours"]
[quick]
rounds = 2
rate = 0.5
names = ["a"]
shares = [0.1]
differs = ["short"]
[full]
rounds = 30
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy.toml").write_text(TEXT)
    return tmp_path


def test_a_scale_and_what_differs(folder):
    quick, full = (read_spec("toy", scale, {}, folder=folder) for scale in ("quick", "full"))
    assert quick.settings == {"rounds": 2, "rate": 0.5, "names": ["a"], "shares": [0.1]}
    assert quick.differs == ("ours", "short")
    assert (full.settings, full.differs) == ({"rounds": 30}, ("ours",))


def test_changes_keep_the_kind_and_are_told(folder):
    changed = read_spec("toy", "quick", {"rounds": "7", "rate": "1", "names": '["b", "c"]', "else": "1"}, folder=folder)
    assert changed.settings == {"rounds": 7, "rate": 1.0, "names": ["b", "c"], "shares": [0.1]}
    assert "rounds = 7, by hand" in changed.differs


@pytest.mark.parametrize("text", ["many", "1.5", "[1]"])
def test_a_change_of_another_kind_is_refused(folder, text):
    with pytest.raises(InvalidInput, match="give a value like 2"):
        read_spec("toy", "quick", {"rounds": text}, folder=folder)


@pytest.mark.parametrize(
    ("key", "text"), [("rate", "nan"), ("rate", "inf"), ("rate", "-inf"), ("shares", "[0.5, nan]")]
)
def test_numbers_are_finite(folder, key, text):
    with pytest.raises(InvalidInput, match=f"{key}: is .*; give a finite number"):
        read_spec("toy", "quick", {key: text}, folder=folder)
    (folder / "toy.toml").write_text(f"[quick]\n{key} = {text}\n")
    with pytest.raises(InvalidInput, match=f"{key}: is .*; give a finite number"):
        read_spec("toy", "quick", {}, folder=folder)


@pytest.mark.parametrize("text", ["[]", '["a"]', "[true]", "[[0.5]]"])
def test_a_list_keeps_its_kind(folder, text):
    with pytest.raises(InvalidInput, match="give a value like"):
        read_spec("toy", "quick", {"shares": text}, folder=folder)
    assert read_spec("toy", "quick", {"shares": "[1, 0.5]"}, folder=folder).settings["shares"] == [1.0, 0.5]


def test_bad_files_are_told(folder):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_spec("none", "quick", {}, folder=folder)
    (folder / "broken.toml").write_text("[quick")
    with pytest.raises(InvalidInput, match="is not TOML"):
        read_spec("broken", "quick", {}, folder=folder)
    (folder / "half.toml").write_text("[quick]\n")
    with pytest.raises(InvalidInput, match=r"has no table \[full\]"):
        read_spec("half", "full", {}, folder=folder)
