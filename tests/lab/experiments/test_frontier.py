from __future__ import annotations

import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments.frontier import OURS, PAPER, PLAIN, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec


def point(family, name, times, share, **found):
    where = {"family": family, "point": name, "times_plaintext": times, "weakest_share": share, "lnacc_half": 0.01}
    open_ = [{**where, "policy": "plaintext", "rest": "plain", "adversary": "zero-fill", "lnacc": 1.0}]
    policy = "plaintext" if share == 0 else "sensecrypt"
    return open_ + [
        {**where, "policy": policy, "rest": "blinded", "adversary": who.replace("_", "-"), "lnacc": lnacc}
        for who, lnacc in {"prior": 0.1, **found}.items()
    ]


def rows(*, whole=2.0, zero_fill=0.2, prototype=0.9, alone=0.1, collusion=0.1, bare=0.8, blindings=0.1):
    return [
        *point(PAPER, "5% each", 100.0, 0.05, zero_fill=zero_fill, prototype=0.9),
        *point(PAPER, "50% each", 900.0, 0.5, zero_fill=0.1, prototype=prototype),
        *point(PAPER, "everything", 2000.0, 1.0, zero_fill=0.1, prototype=0.1),
        *point(OURS, "blinding only", 1.01, 0.0, zero_fill=0.1, prototype=blindings, collusion=0.1),
        *point(OURS, "0 s", 1.2, 0.2, zero_fill=0.1, prototype=alone, collusion=collusion),
        *point(OURS, "1 s", whole, 1.0, zero_fill=0.1, prototype=0.1, collusion=0.1),
        *point(PLAIN, "0 s", 1.2, 0.2, zero_fill=0.1, prototype=0.1, collusion=bare),
    ]


def outcomes(found):
    return [verdict.outcome for verdict in judge(found)]


def test_outcomes_follow_from_cost_and_from_the_strongest():
    assert outcomes(rows()) == ["reproduced", "not reproduced", "beyond", "not reproduced", "beyond", "beyond"]
    assert "prior 0.10, plaintext 1.00" in judge(rows())[0].measured
    assert "5%: 0.90 (prototype)" in judge(rows())[1].measured


@pytest.mark.parametrize(
    ("change", "place", "then"),
    [
        ({"zero_fill": 0.6}, 0, "reproduced in shape"),
        ({"zero_fill": 0.8}, 0, "not reproduced"),
        ({"prototype": 0.1}, 1, "reproduced"),
        ({"alone": 0.4}, 2, "not reproduced"),
        ({"collusion": 0.5}, 2, "not reproduced"),
        ({"bare": 0.1}, 3, "beyond"),
        ({"blindings": 0.3}, 4, "not reproduced"),
        ({"whole": 150.0}, 5, "not reproduced"),
    ],
)
def test_a_changed_point_flips_its_outcome(change, place, then):
    assert outcomes(rows(**change))[place] == then


def test_the_picture_has_a_panel_an_adversary_and_the_same_bytes():
    assert len(draw(rows()).axes) == 3
    with style("figures"):
        assert to_png(draw(rows())) == to_png(draw(rows()))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_are_a_family_each(scale):
    spec = read_spec("frontier", scale, {}).settings
    assert [cell.name for cell in cells(spec)] == ["paper", "ours", "plain"]
