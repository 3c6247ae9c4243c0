from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments.divergence import VARIANTS, _distances, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec

EMDS = {"classes:10": 0.0, "classes:5": 2.78, "classes:2": 3.56, "classes:1": 3.67}


def rows(unions=(0.15, 0.3, 0.4, 0.5), emds=EMDS):
    return [
        {"partition": name, "method": method, "gradient": gradient, "ratio": 0.1, "union": union, "emd": emd}
        | {"histogram_distance": emd / 2}
        for (name, emd), union in zip(emds.items(), unions, strict=True)
        for method, gradient in VARIANTS
    ]


def outcomes(found):
    return [verdict.outcome for verdict in judge(found)]


def test_a_union_that_grows_with_the_distance_reproduces_the_appendix():
    assert outcomes(rows()) == ["reproduced"] * 6


@pytest.mark.parametrize(
    ("unions", "then"),
    [
        ((0.15, 0.3, 0.4, 0.2), "reproduced in shape"),
        ((0.15, 0.3, 0.4, 0.1), "not reproduced"),
        ((0.15, 0.151, 0.152, 0.153), "not reproduced"),  # it rises, but not significantly
    ],
)
def test_a_union_that_falls_does_not(unions, then):
    assert outcomes(rows(unions))[1] == then


def test_the_mean_over_the_seeds_decides():
    falls, rises = rows((0.15, 0.3, 0.28, 0.4)), rows((0.15, 0.3, 0.4, 0.5))
    assert outcomes(falls)[1] == "reproduced in shape"
    assert outcomes([*falls, *rises])[1] == "reproduced"
    assert "34.0% (28.0% to 40.0%)" in judge([*falls, *rises])[1].measured


def test_other_distances_and_small_unions_are_told():
    assert outcomes(rows(emds=EMDS | {"classes:2": 1.8}))[0] == "not reproduced"
    assert outcomes(rows((0.11, 0.12, 0.13, 0.14)))[-1] == "not reproduced"


def test_the_picture_has_the_same_bytes():
    with style("figures"):
        assert to_png(draw(rows())) == to_png(draw(rows()))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_are_a_partition_and_seed_each(scale):
    spec = read_spec("divergence", scale, {}).settings
    names = [f"classes-{count}-{seed}" for seed in spec["seeds"] for count in (10, 5, 2, 1)]
    assert [cell.name for cell in cells(spec)] == names


def test_distances_are_those_of_the_paper():
    one = _distances(list(np.eye(10, dtype=np.int64)))
    assert one["emd"] == pytest.approx(11 / 3)
    assert one["histogram_distance"] == pytest.approx(2.0)
    five = _distances([np.repeat([5, 0] if client % 2 else [0, 5], 5) for client in range(10)])
    assert five["emd"] == pytest.approx(2.78, abs=0.005)
    assert _distances([np.ones(10, dtype=np.int64)] * 3) == {"emd": 0.0, "histogram_distance": 0.0}
