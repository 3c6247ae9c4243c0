from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest

from sensecrypt.experiments.b_and_c import cells, combinations, draw, judge
from sensecrypt.experiments.specs import read_spec


@pytest.fixture
def rows():
    """A client that can afford floors of up to that of (1.5, 0.3)."""
    found = []
    for objective, (step, scale) in product(("balanced", "cheapest"), product((1.4, 1.5, 1.6), (0.3, 0.4))):
        floor = 1 - scale * np.exp(-0.1 * step)
        ratio = None if floor > 1 - 0.3 * np.exp(-0.15) else 0.1 * floor
        mi = None if ratio is None else 2.5 - ratio
        found.append(
            {"objective": objective, "B": step, "C": scale, "max_mi": 2.0, "floor": floor} | {"ratio": ratio, "mi": mi}
        )
    return found


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def test_the_papers_client(rows):
    assert outcomes(rows) == ["reproduced"] * 4


def test_one_ratio_whatever_the_floor_is_the_shape_only(rows):
    changed = [row | {"ratio": 0.1} if row["objective"] == "balanced" and row["ratio"] else row for row in rows]
    assert outcomes(changed)[0] == "reproduced in shape"
    assert "10.0%" in judge(changed)[0].measured


def test_more_leakage_with_more_encrypted_is_not_it(rows):
    changed = [row if row["mi"] is None else row | {"mi": row["ratio"]} for row in rows]
    assert outcomes(changed) == ["not reproduced", "reproduced", "reproduced", "not reproduced"]


def test_another_best_combination_is_the_shape(rows):
    changed = copy.deepcopy(rows)
    for row in changed:
        if (row["B"], row["C"]) == (1.6, 0.3):
            row |= {"ratio": 0.099, "mi": 2.3}
    assert outcomes(changed)[1:3] == ["not reproduced", "reproduced in shape"]


def test_the_picture(rows):
    assert len(draw(rows).axes) == 8


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("b-and-c", scale, {}).settings)]
    assert len(set(names)) == len(names)


def test_real_selections():
    rng = np.random.default_rng(0)
    weights, gains = rng.normal(size=2000), rng.lognormal(0, 1, 2000)
    rows = combinations(weights, gains, budget=0.1, pairs=[(1.0, 0.1), (1.0, 0.9), (2.0, 0.9)], max_mi=2.0)
    by = {(row["objective"], row["B"], row["C"]): row for row in rows}
    assert by["cheapest", 1.0, 0.1]["ratio"] is None
    assert by["balanced", 1.0, 0.9]["ratio"] == by["balanced", 2.0, 0.9]["ratio"] == 0.1  # the budget binds
    assert 0 < by["cheapest", 1.0, 0.9]["ratio"] < by["cheapest", 2.0, 0.9]["ratio"] < 0.1
    assert by["cheapest", 1.0, 0.9]["mi"] > by["balanced", 1.0, 0.9]["mi"] > 0
