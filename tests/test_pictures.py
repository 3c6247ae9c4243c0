"""Text in the drawings of the docs stays inside its box, also in a wide font."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"n": 12, "label": 13, "slabel": 13}  # by class; others have the drawing's 14


def spans(path: Path) -> list[tuple[str, float, float, float]]:
    """Every text with where it begins, ends, and stands, in DejaVu Sans: the widest of the fonts that browsers take."""
    found = []
    for text in ET.parse(path).getroot().iter(f"{SVG}text"):  # noqa: S314
        kind = text.get("class", "")
        font = FontProperties(family="DejaVu Sans", weight="bold" if kind in ("name", "who") else "normal")
        width = TextPath((0, 0), text.text, size=SIZES.get(kind, 14), prop=font).get_extents().width
        x, y = float(text.get("x")), float(text.get("y"))
        left = x - width / 2 if kind in ("s", "n") else x
        found.append((text.text, left, left + width, y))
    return found


def boxes(path: Path) -> list[tuple[float, float, float, float]]:
    """Left, right, top, bottom of every rectangle."""
    return [
        (x, x + float(box.get("width")), y, y + float(box.get("height")))
        for box in ET.parse(path).getroot().iter(f"{SVG}rect")  # noqa: S314
        for x, y in [(float(box.get("x", 0)), float(box.get("y", 0)))]
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in PICTURES.glob("*.svg")))
def test_text_stays_inside_its_box(name):
    for text, left, right, y in spans(PICTURES / name):
        middle = (left + right) / 2
        around = [box for box in boxes(PICTURES / name) if box[0] <= middle <= box[1] and box[2] <= y <= box[3]]
        assert around, text
        box = min(around, key=lambda box: box[1] - box[0])
        assert box[0] + 4 <= left, (text, box)
        assert right <= box[1] - 4, (text, box)
        assert y <= box[3] - 4, (text, box)


def test_a_text_that_leaves_its_box_is_seen(tmp_path):
    drawing = tmp_path / "a.svg"
    drawing.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><rect x="0" y="0" width="50" height="20"/>'
        '<text x="4" y="14">much too long for it</text></svg>'
    )
    assert spans(drawing)[0][2] > boxes(drawing)[0][1]
