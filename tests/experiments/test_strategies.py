from __future__ import annotations

import pytest

from sensecrypt.drawing import style, to_png
from sensecrypt.experiments import strategies
from sensecrypt.experiments.specs import read_spec
from sensecrypt.experiments.strategies import cells, draw, judge

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)


def row(first, share, adversary, mi, leacc, lnacc):
    shown = {"first": first, "share": share, "adversary": adversary, "mi": mi, "seeds": 30}
    return {**shown, "leacc": leacc, "lnacc": lnacc, "leacc_half": 0.0, "lnacc_half": 0.0}


@pytest.fixture
def rows():
    """As the paper tells it."""
    found = [row("nothing", 0.0, "prior", 3.0, 0.9, 0.2), row("nothing", 0.0, "zero-fill", 3.0, 1.0, 1.0)]
    found.append(row("nothing", 0.0, "prototype", 3.0, 1.0, 1.0))
    for share in SHARES:
        found.append(row("high", share, "zero-fill", 0.1, 0.4, 0.1))
        found.append(row("low", share, "zero-fill", 2.99 - share / 100, 1.0, 1.0))
        found.append(row("random", share, "zero-fill", 3.0 * (1 - share), 1.0 - share / 2, 1.0 - share))
        found += [row(first, share, "prototype", 1.0, 0.2, 0.2) for first in ("high", "low", "random")]
    return found


def changed(rows, first, key, value, adversary="zero-fill"):
    return [{**each, key: value} if (each["first"], each["adversary"]) == (first, adversary) else each for each in rows]


def test_the_papers_own_curves_are_all_reproduced(rows):
    assert [verdict.outcome for verdict in judge(rows)] == ["reproduced"] * 7 + ["beyond"]


@pytest.mark.parametrize(
    ("place", "first", "key", "value", "adversary"),
    [
        (0, "random", "mi", 2.9, "zero-fill"),
        (1, "low", "mi", 0.5, "zero-fill"),
        (2, "high", "mi", 1.5, "zero-fill"),
        (3, "low", "lnacc", 0.3, "zero-fill"),
        (4, "high", "lnacc", 0.9, "zero-fill"),
        (5, "random", "lnacc", 0.1, "zero-fill"),
        (6, "low", "lnacc", 0.0, "zero-fill"),
        (7, "high", "lnacc", 0.9, "prototype"),
    ],
)
def test_another_curve_flips_the_outcome(rows, place, first, key, value, adversary):
    assert judge(changed(rows, first, key, value, adversary))[place].outcome == "not reproduced"


def test_labels_that_are_told_present_again_are_a_matter_of_shape(rows):
    assert judge(changed(rows, "high", "leacc", 0.9))[3].outcome == "reproduced in shape"


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("strategies", scale, {}).settings)]
    assert len(set(names)) == len(names) == 2


def test_digits_are_measured(tmp_path):
    spec = {"model": "digits-mlp", "dataset": "digits", "samples": 12, "first_seed": 0, "seeds": 1, "strong_seeds": 1}
    spec |= {"shares": [0.1, 0.5], "strong_shares": [0.5]}
    rows = [each for cell in cells(spec) for each in cell.measure(tmp_path)]
    assert {each["first"] for each in rows} == {"nothing", *strategies.POLICIES}
    assert len(judge(rows)) == 8
