from __future__ import annotations

import copy
from pathlib import Path

import pytest

from sensecrypt.lab.experiments.schemes import (
    CKKS,
    CKKS_SINGLE,
    OURS,
    PACKED,
    SCALAR,
    STOCK,
    STOCK_3072,
    _measure,
    _ours,
    cells,
    draw,
    judge,
)
from sensecrypt.lab.experiments.specs import read_spec


@pytest.fixture
def rows():
    """Seconds and bytes of one value and of 10,000."""
    told = {
        STOCK: (0.4, 512, 4000.0, 5_120_000),
        STOCK_3072: (1.0, 768, 10_000.0, 7_680_000),
        CKKS: (0.007, 333_000, 0.03, 1_000_000),
        CKKS_SINGLE: (0.007, 333_000, 70.0, 3_330_000_000),
        SCALAR: (0.001, 512, 7.0, 5_120_000),
        PACKED: (0.001, 512, 0.1, 81_408),
        OURS["ckks-8192"]: (0.004, 131_328, 0.01, 393_984),
    }
    found = []
    for name, (first, small, last, large) in told.items():
        found.append({"scheme": name, "quantity": 1, "seconds": first, "bytes": small, "measured": True})
        found.append({"scheme": name, "quantity": 10_000, "seconds": last, "bytes": large, "measured": name == CKKS})
    return found


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def changed(rows, name, **new):
    out = copy.deepcopy(rows)
    for row in out:
        if row["scheme"] == name:
            row |= new
    return out


def test_the_papers_figures(rows):
    assert outcomes(rows) == ["reproduced", "reproduced", "reproduced", "reproduced in shape", "beyond"]


def test_outcomes_follow_the_rows(rows):
    assert outcomes(changed(rows, CKKS, bytes=100_000))[0] == "reproduced in shape"
    assert outcomes(changed(rows, CKKS, bytes=10_000))[0] == "not reproduced"
    assert outcomes(changed(rows, STOCK, seconds=0.02))[1] == "reproduced in shape"
    assert outcomes(changed(rows, STOCK, seconds=0.001))[1] == "not reproduced"
    assert outcomes(changed(rows, STOCK, seconds=0.02))[2:4] == ["not reproduced", "reproduced"]
    assert outcomes(changed(rows, PACKED, bytes=5_000_000))[4] == "not reproduced"


def test_the_picture(rows):
    assert len(draw(rows).axes) == 2


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("schemes", scale, {}).settings)]
    assert len(set(names)) == len(names) == 8


def test_what_is_beyond_the_limit_is_multiplied():
    spec = {"quantities": [1, 10, 100, 1000], "repeats": 1}
    rows = _measure(spec, "short", lambda: _ours("insecure-test"), 100, Path())
    assert [row["measured"] for row in rows] == [True, True, True, False]
    assert rows[3]["bytes"] == 10 * rows[2]["bytes"]
    assert rows[3]["seconds"] == pytest.approx(10 * rows[2]["seconds"])
