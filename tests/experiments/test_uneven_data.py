from __future__ import annotations

import pytest

from sensecrypt.drawing import style, to_png
from sensecrypt.experiments.specs import read_spec
from sensecrypt.experiments.uneven_data import LARGE, MASK, OURS, SENSE, SMALL, cells, draw, judge

KINDS = ("iid", "5", "2", "1")
RISING = (0.2, 0.3, 0.5, 0.7)


def row(network, kind, method, adversary, leacc, lnacc, client):
    shown = {"network": network, "classes": kind, "method": method, "adversary": adversary, "client": client}
    return {**shown, "share": 0.03, "leacc": leacc, "lnacc": lnacc}


@pytest.fixture
def rows():
    """As the paper tells it."""
    found = []
    for network in (SMALL, LARGE):
        for kind, rising in zip(KINDS, RISING, strict=True):
            for client, off in enumerate((-0.02, 0.02)):
                found.append(row(network, kind, "nothing", "prior", 0.9, 0.2, client))
                found.append(row(network, kind, "nothing", "zero-fill", 1.0, 1.0, client))
                high = kind == "iid"
                found.append(row(network, kind, MASK, "zero-fill", 0.95 if high else rising, rising + off, client))
                found.append(row(network, kind, SENSE, "zero-fill", 0.95 if high else 0.3, 0.2 + off, client))
                found += [row(network, kind, each, "prototype", 0.4, 0.2, client) for each in (MASK, SENSE)]
    found += [row(SMALL, kind, OURS, "value-matching", 0.4, 0.2, 0) for kind in KINDS]
    return found


def changed(rows, value, key, method, kind, adversary="zero-fill"):
    wanted = (SMALL, method, kind, adversary)
    keys = ("network", "method", "classes", "adversary")
    return [{**each, key: value} if tuple(each[k] for k in keys) == wanted else each for each in rows]


def test_the_papers_own_figures_are_all_reproduced(rows):
    assert [verdict.outcome for verdict in judge(rows)] == ["reproduced"] * 5 + ["beyond"] * 2 + ["reproduced"] * 5 + [
        "beyond"
    ]


@pytest.mark.parametrize(
    ("place", "value", "key", "method", "kind"),
    [
        (0, 0.2, "lnacc", MASK, "1"),
        (1, 0.9, "lnacc", SENSE, "1"),
        (2, 0.3, "leacc", MASK, "1"),
        (3, 0.9, "leacc", SENSE, "1"),
        (4, 0.3, "leacc", SENSE, "iid"),
    ],
)
def test_another_round_flips_the_outcome(rows, place, value, key, method, kind):
    assert judge(changed(rows, value, key, method, kind))[place].outcome == "not reproduced"


def test_a_stronger_attacker_that_succeeds_is_told(rows):
    verdict = judge(changed(rows, 0.9, "lnacc", SENSE, "2", "prototype"))[5]
    assert verdict.outcome == "not reproduced"
    assert "at best +0.70 against guessing" in verdict.measured


def test_a_secret_order_that_is_found_again_is_told(rows):
    assert judge(changed(rows, 0.7, "lnacc", OURS, "1", "value-matching"))[6].outcome == "not reproduced"


def test_a_smaller_rise_is_a_matter_of_shape(rows):
    assert judge(changed(rows, 0.4, "lnacc", SENSE, "1"))[1].outcome == "reproduced in shape"


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("uneven-data", scale, {}).settings)]
    assert len(set(names)) == len(names) >= 8
