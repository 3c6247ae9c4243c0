from __future__ import annotations

import pytest

from sensecrypt.drawing import style, to_png
from sensecrypt.experiments.extreme_devices import LARGE, SMALL, cells, draw, judge
from sensecrypt.experiments.specs import read_spec

CPUS = (32.0, 8.0, 1.0)


def row(network, preset, adversary, cpus, leacc, lnacc):
    shown = {"network": network, "preset": preset, "adversary": adversary, "cpus": cpus, "share": cpus / 32}
    return {**shown, "seeds": 3, "leacc": leacc, "lnacc": lnacc, "leacc_half": 0.1, "lnacc_half": None}


@pytest.fixture
def rows():
    found = []
    for network in (SMALL, LARGE):
        for cpus in (*CPUS, 0.0):
            found.append(row(network, "paper", "prior", cpus, 0.9, 0.2))
            found.append(row(network, "paper", "zero-fill", cpus, 0.4 if cpus else 1.0, 0.1 if cpus else 1.0))
            found.append(row(network, "paper", "completion", cpus, 0.5, 0.3 if cpus else 1.0))
    for cpus in (1.0, 0.0):
        found.append(row(SMALL, "default", "prior", cpus, 0.9, 0.2))
        found.append(row(SMALL, "default", "value-matching", cpus, 0.9, 0.2))
        found.append(row(SMALL, "default", "collusion", cpus, 0.9, 0.8))
    return found


def changed(rows, key, value, **which):
    return [{**each, key: value} if all(each[k] == v for k, v in which.items()) else each for each in rows]


def test_outcomes_follow_from_the_rows(rows):
    outcomes = [verdict.outcome for verdict in judge(rows)]
    assert outcomes == ["reproduced", "reproduced", "beyond"] * 2 + ["beyond", "not reproduced"]


def test_a_slow_client_that_is_read_flips_them(rows):
    slow = {"network": SMALL, "preset": "paper", "cpus": 1.0}
    assert judge(changed(rows, "leacc", 0.9, adversary="zero-fill", **slow))[0].outcome == "not reproduced"
    assert judge(changed(rows, "lnacc", 0.9, adversary="zero-fill", **slow))[1].outcome == "not reproduced"
    assert judge(changed(rows, "lnacc", 0.9, adversary="completion", **slow))[2].outcome == "not reproduced"
    learnt = changed(rows, "lnacc", 0.5, preset="default", adversary="value-matching", cpus=1.0)
    assert judge(learnt)[-2].outcome == "not reproduced"


def test_a_fast_client_that_is_a_little_off_is_a_matter_of_shape(rows):
    fast = {"network": SMALL, "preset": "paper", "adversary": "zero-fill", "cpus": 32.0}
    assert judge(changed(rows, "leacc", 0.55, **fast))[0].outcome == "reproduced in shape"
    guessed = changed(changed(rows, "leacc", 0.9, **fast), "lnacc", 0.2, **fast)
    assert judge(guessed)[0].outcome == "not reproduced"
    assert "nothing but the guess with 32 CPUs" in judge(guessed)[0].measured


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    spec = read_spec("extreme-devices", scale, {}).settings
    names = [cell.name for cell in cells(spec)]
    assert len(set(names)) == len(names) == 2 + spec["large_seeds"]
    assert len(spec["shares"]) == len(spec["large_shares"]) == len(spec["cpus"])
