from __future__ import annotations

import base64

import numpy as np
import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments import reconstruction
from sensecrypt.lab.experiments.reconstruction import CLEAR, INSIDE, MASK, NOTHING, OURS, SENSE, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec

IMAGE = base64.b64encode(bytes(range(64))).decode()


def row(method, adversary, share, ssim, shown=True):
    told = {"attack": "dlg", "method": method, "adversary": adversary, "share": share, "seed": 1000, "ssim": ssim}
    return {**told, "psnr": 80 * ssim, "image": IMAGE if shown else "", "original": IMAGE if shown else ""}


@pytest.fixture
def rows():
    found = [row(NOTHING, "mask-aware", 0.0, 1.0)]
    for method, blind in ((MASK, 0.7), (SENSE, 0.2)):
        found += [row(method, "zero-fill", 0.031, blind), row(method, "mask-aware", 0.031, 1.0)]
    found.append(row(CLEAR, "sensitivity", 1.0, 0.9))
    found += [row(OURS, "mask-aware", 0.5, 0.1), row(INSIDE, "mask-aware", 0.5, 1.0)]
    for share, high, other in ((0.031, 1.0, 1.0), (0.7, 0.1, 0.9), (0.9, 0.1, 0.3)):
        found.append(row("high first", "mask-aware", share, high, False))
        found.append(row("random first", "mask-aware", share, other, False))
    batch = {"attack": "inverting", "share": 0.031, "psnr": 12.0}
    found.append({**batch, "method": NOTHING, "adversary": "mask-aware", "ssim": 0.8})
    for method, blind in ((MASK, 0.4), (SENSE, 0.2)):
        found.append({**batch, "method": method, "adversary": "zero-fill", "ssim": blind})
    return found


def changed(rows, method, adversary, ssim):
    wanted = (method, adversary)
    return [{**each, "ssim": ssim} if (each["method"], each["adversary"]) == wanted else each for each in rows]


def test_outcomes_follow_from_the_rows(rows):
    found = judge(rows)
    assert [verdict.outcome for verdict in found] == [
        "reproduced",
        "not reproduced",
        "not reproduced",
        "beyond",
        "reproduced in shape",
        "reproduced in shape",
    ]
    assert "from 70% on (high first)" in found[3].measured
    assert "from 90% on (random first)" in found[3].measured


@pytest.mark.parametrize(
    ("place", "method", "adversary", "ssim", "outcome"),
    [
        (0, MASK, "zero-fill", 0.4, "reproduced in shape"),
        (0, MASK, "zero-fill", 0.1, "not reproduced"),
        (1, SENSE, "mask-aware", 0.1, "beyond"),
        (2, CLEAR, "sensitivity", 0.1, "reproduced"),
        (3, "high first", "mask-aware", 0.9, "not reproduced"),
        (4, INSIDE, "mask-aware", 0.1, "beyond"),
        (4, OURS, "mask-aware", 0.9, "not reproduced"),
        (5, SENSE, "zero-fill", 0.4, "not reproduced"),
        (5, MASK, "zero-fill", 0.6, "reproduced"),
    ],
)
def test_another_figure_flips_the_outcome(rows, place, method, adversary, ssim, outcome):
    assert judge(changed(rows, method, adversary, ssim))[place].outcome == outcome


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


def test_images_survive_as_text():
    image = np.linspace(0, 1, 784, dtype=np.float32).reshape(1, 1, 28, 28)
    back = reconstruction._pixels(reconstruction._text(image))
    assert np.array_equal(back, np.rint(image[0, 0] * 255).astype(np.uint8))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("reconstruction", scale, {}).settings)]
    assert len(set(names)) == len(names) >= 3
