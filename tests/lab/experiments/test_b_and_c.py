from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest

from sensecrypt.lab.experiments.b_and_c import READINGS, cells, combinations, draw, judge
from sensecrypt.lab.experiments.specs import read_spec


@pytest.fixture
def rows():
    """A client that can afford floors of up to that of (1.5, 0.3)."""
    found = []
    for reading, (step, scale) in product(READINGS, product((1.4, 1.5, 1.6), (0.3, 0.4))):
        floor = 1 - scale * np.exp(-0.1 * step)
        ratio = None if floor > 1 - 0.3 * np.exp(-0.15) else 0.1 * floor
        mi = None if ratio is None else 2.5 - ratio
        found.append(
            {"normalise": reading, "B": step, "C": scale, "max_mi": 2.0, "floor": floor} | {"ratio": ratio, "mi": mi}
        )
    return found


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def test_the_papers_client(rows):
    assert outcomes(rows) == ["reproduced"] * 4


def test_one_ratio_whatever_the_floor_is_not_it(rows):
    flat = [row | {"ratio": 0.1, "mi": 2.1} if row["ratio"] else row for row in rows]
    assert outcomes(flat)[0] == "not reproduced"
    others = [row | {"ratio": 0.1} if row["normalise"] == "all" and row["ratio"] else row for row in rows]
    assert outcomes(others)[0] == "reproduced"  # another reading does not change the verdict, and is named
    assert "normalise = all: 10.0%" in judge(others)[0].measured


def test_more_leakage_with_more_encrypted_is_not_it(rows):
    changed = [row if row["mi"] is None else row | {"mi": row["ratio"]} for row in rows]
    assert outcomes(changed) == ["not reproduced", "reproduced", "reproduced in shape", "not reproduced"]


def test_another_best_combination_within_the_grid_is_not_it(rows):
    changed = copy.deepcopy(rows)
    for row in changed:
        if (row["B"], row["C"]) == (1.4, 0.3):
            row |= {"ratio": 0.099, "mi": 1.3}
    assert outcomes(changed)[2] == "reproduced in shape"
    for row in changed:
        if (row["B"], row["C"]) == (1.4, 0.4):
            row |= {"ratio": 0.0999, "mi": 1.2}
    assert outcomes(changed)[2] == "not reproduced"


def test_the_picture(rows):
    assert len(draw(rows).axes) == 12


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("b-and-c", scale, {}).settings)]
    assert len(set(names)) == len(names)


def test_real_selections():
    rng = np.random.default_rng(0)
    weights, gains = rng.normal(size=2000), rng.lognormal(0, 1, 2000)
    pairs = [(1.0, 0.1), (1.0, 0.9), (2.0, 0.75)]
    rows = combinations(weights, gains, budget=0.1, pairs=pairs, max_mi=2.9, bins=10)
    by = {(row["normalise"], row["B"], row["C"]): row for row in rows}
    assert by["budget", 1.0, 0.1]["ratio"] is None
    assert by["all", 1.0, 0.9]["ratio"] == by["all", 2.0, 0.75]["ratio"] == 0.1  # the budget binds
    assert 0 < by["feasible", 1.0, 0.9]["ratio"] < by["feasible", 2.0, 0.75]["ratio"] < 0.1
    assert by["feasible", 1.0, 0.9]["mi"] > by["all", 1.0, 0.9]["mi"] > 0
    tight = combinations(weights, gains, budget=0.1, pairs=pairs, max_mi=1.0, bins=10)
    assert all(row["ratio"] is None for row in tight)  # the leakage bound counts, too
