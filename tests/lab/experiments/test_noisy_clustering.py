from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest

from sensecrypt.lab.experiments.noisy_clustering import METHODS, READINGS, cells, draw, judge, noise_rows
from sensecrypt.lab.experiments.specs import read_spec

EPSILONS = (0.01, 0.1, 0.2, 1.0)


def score(reading, method, epsilon, clip=1.0):
    """As the paper has it for the noise of a sample, better for sketches, nothing to the letter."""
    tolerated = {"written": 2.0, "sample": 0.1 if method == "AP" else 0.2, "sketch": 0.01}[reading]
    good = epsilon is None or epsilon >= tolerated
    clear = epsilon is None or (epsilon >= 0.1 and reading != "written")
    return {"kind": "score", "reading": reading, "method": method, "epsilon": epsilon, "clip": clip, "draw": 0} | {
        "ari": 1.0 if good else 0.0,
        "silhouette": 0.9 if epsilon is None else 0.2,
        "clusters": 5,
        "nearer": 30 if clear else 1,
        "pairs": 30,
        "numbers": 256 if reading == "sketch" else 124_534,
        "sigma": None if epsilon is None else 4.8 / epsilon,
        "local_epsilon": None if epsilon is None else 1.1 * epsilon,
    }


@pytest.fixture
def rows():
    found = [score(*each) for each in product(READINGS, METHODS, (None, *EPSILONS))]
    found += [score("written", method, 1.0, 4.0) for method in METHODS]
    pairs = [(a, b) for a in range(4) for b in range(a)]
    found += [
        {"kind": "pair", "reading": reading, "epsilon": epsilon, "a": a, "b": b, "distance": float(a + b)}
        for reading, epsilon, (a, b) in product(READINGS, (0.1, 0.01), pairs)
    ]
    return found


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def changed(rows, new, **where):
    out = copy.deepcopy(rows)
    for row in out:
        if all(row.get(key) == value for key, value in where.items()):
            row |= new
    return out


def test_the_noise_of_a_sample_alone_is_the_shape(rows):
    assert outcomes(rows) == ["reproduced in shape"] * 5 + ["not reproduced", "beyond"]


def test_clusters_under_the_literal_noise_reproduce_it(rows):
    good = changed(rows, {"ari": 1.0}, kind="score", reading="written")
    assert outcomes(good)[:2] == ["reproduced", "reproduced"]


def test_a_drop_too_early(rows):
    bad = changed(rows, {"ari": 0.5}, reading="sample", epsilon=0.2)
    assert outcomes(bad)[:2] == ["not reproduced", "not reproduced"]
    no_k_means = changed(rows, {"ari": 0.5}, reading="sample", method="K-means", epsilon=0.2)
    assert outcomes(no_k_means)[:2] == ["not reproduced", "reproduced in shape"]


def test_maps_silhouettes_methods_guarantee_and_sketches(rows):
    assert outcomes(changed(rows, {"nearer": 10}, reading="sample", epsilon=0.1))[2] == "not reproduced"
    assert outcomes(changed(rows, {"silhouette": 0.9}, kind="score"))[3] == "not reproduced"
    assert outcomes(changed(rows, {"ari": 1.0}, kind="score"))[4] == "not reproduced"
    kept = [row | {"local_epsilon": row["epsilon"]} if row.get("local_epsilon") else row for row in rows]
    assert outcomes(kept)[5] == "reproduced"
    assert outcomes(changed(rows, {"ari": 0.0}, reading="sketch", epsilon=0.1))[6] == "not reproduced"


def test_the_picture(rows):
    assert len(draw(rows).axes) == 9  # three maps with a scale each, three charts


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("noisy-clustering", scale, {}).settings)]
    assert len(set(names)) == len(names)


def test_real_noise():
    rng = np.random.default_rng(0)
    category = np.arange(9) // 3
    clear = np.repeat(np.eye(3, 300), 3, axis=0) + 0.001 * rng.random((9, 300))
    spec = {"samples": 100_000, "epsilons": [0.1, 1.0], "clips": [0.5, 1.0], "draws": 1, "seed": 0}
    rows = noise_rows(spec, clear, clear, category)
    ari = {
        (row["reading"], row["epsilon"], row["clip"], row["method"]): row["ari"]
        for row in rows
        if row["kind"] == "score"
    }
    assert all(ari["sample", 1.0, 1.0, method] == 1.0 for method in METHODS)
    assert all(ari["written", 1.0, 1.0, method] < 0.9 for method in METHODS)
    assert ("written", 1.0, 0.5, "AP") in ari
    assert ("written", 0.1, 0.5, "AP") not in ari
    assert sum(row["kind"] == "pair" for row in rows) == 3 * 36
    assert rows == noise_rows(spec, clear, clear, category)
