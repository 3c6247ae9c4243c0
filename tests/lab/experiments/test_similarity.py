from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from sensecrypt.lab.experiments.similarity import _measure, cells, draw, judge, nearer_pairs
from sensecrypt.lab.experiments.specs import read_spec


@pytest.fixture
def rows():
    places = np.array([0.0, 0.1, 5.0, 5.1, 20.0, 20.1])  # three categories of two
    return [
        {"rate": rate, "a": a, "b": b, "category_a": a // 2, "category_b": b // 2, "emd": float(abs(a // 2 - b // 2))}
        | {kind: float(abs(places[a] - places[b])) ** power for kind, power in (("clear", 1), ("sketch", 0.5))}
        | {f"cluster_{kind}_of_a": a // 2 for kind in ("clear", "sketch")}
        for rate in (0.0, 0.1)
        for a in range(6)
        for b in range(6)
    ]


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def test_distances_that_follow_the_categories(rows):
    assert outcomes(rows) == ["reproduced", "not reproduced", "beyond"]  # and the EMD completely


def test_a_wrong_cluster_at_one_rate_leaves_the_shape(rows):
    changed = copy.deepcopy(rows)
    for row in changed:
        if row["rate"] == 0.1 and row["a"] == 5:
            row["cluster_clear_of_a"] = row["cluster_sketch_of_a"] = 0
    assert outcomes(changed) == ["reproduced in shape", "not reproduced", "not reproduced"]


def test_a_pair_that_is_far_apart_counts_against_it(rows):
    changed = copy.deepcopy(rows)
    for row in changed:
        if {row["a"], row["b"]} == {0, 1}:
            row["clear"] = 30.0
    assert outcomes(changed)[0] == "not reproduced"
    assert "2 of 3" in judge(changed)[0].measured


def test_distances_across_categories_need_not_follow_the_emd(rows):
    changed = [row | {"emd": -row["emd"]} for row in rows]
    assert outcomes(changed)[1] == "reproduced"


def test_nearer_pairs_asks_both_clients():
    matrix = np.array([[0, 1, 3.0], [1, 0, 0.5], [3, 0.5, 0]])
    assert nearer_pairs(matrix, [0, 0, 1]) == (0, 1)
    assert nearer_pairs(matrix, [0, 1, 1]) == (1, 1)


def test_the_picture(rows):
    assert len(draw(rows).axes) == 10  # five maps with a scale each


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("similarity", scale, {}).settings)]
    assert len(set(names)) == len(names)


def test_real_clients_on_digits():
    spec = {"dataset": "digits", "clients": 4, "categories": 2, "samples": 50, "batch_size": 16, "momentum": 0.5}
    rows = _measure(spec | {"seed": 0}, 0.05, Path())
    assert len(rows) == 16
    assert all(row["clear"] == row["sketch"] == row["emd"] == 0 for row in rows if row["a"] == row["b"])
    assert nearer_pairs(np.array([row["clear"] for row in rows]).reshape(4, 4), [0, 0, 1, 1]) == (2, 2)
