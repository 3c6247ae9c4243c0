from __future__ import annotations

import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments.cost_efficiency import METHODS, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec

FLAT, RISING = (10.0, 10.2, 10.4, 10.6), (10.0, 15.0, 20.0, 30.0)


def course(method, means):
    return [
        {"dataset": "fashion-mnist", "method": method, "round": number + 1, "cpus_min": 8, "cpus_max": 32}
        | {"min": 0.8 * mean, "mean": mean, "max": 1.2 * mean, "encrypted_share_min": 0.3}
        for number, mean in enumerate(means)
    ]


def rows(**means):
    chosen = dict.fromkeys(METHODS, FLAT) | {"MaskCrypt": RISING} | means
    return [row for name, values in chosen.items() for row in course(name, values)]


def outcomes(found):
    return [verdict.outcome for verdict in judge(found)]


def test_rising_masks_and_static_times():
    assert outcomes(rows()) == ["reproduced"] * 4 + ["beyond"]


@pytest.mark.parametrize(
    ("method", "means", "place", "then"),
    [
        ("MaskCrypt", FLAT, 0, "not reproduced"),
        ("SenseCrypt", (5.0, 6.0, 6.5, 7.0), 1, "reproduced in shape"),
        ("SenseCrypt", (5.0, 6.0, 7.0, 9.0), 1, "not reproduced"),
        ("SenseCrypt", (5.0, 6.0, 7.0, 19.0), 1, "not reproduced"),
        ("our default", (5.0, 6.0, 7.0, 19.0), 4, "not reproduced"),
    ],
)
def test_another_course_flips_the_outcome(method, means, place, then):
    assert outcomes(rows(**{method: means}))[place] == then


def test_the_picture_has_a_panel_a_data_set_and_the_same_bytes():
    both = rows() + [row | {"dataset": "cifar-10"} for row in rows()]
    assert len(draw(both).axes) == 2
    with style("figures"):
        assert to_png(draw(both)) == to_png(draw(both))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_are_a_data_set_each(scale):
    spec = read_spec("cost-efficiency", scale, {}).settings
    assert [cell.name for cell in cells(spec)] == spec["datasets"]
