from __future__ import annotations

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments import uneven_data
from sensecrypt.lab.experiments.specs import read_spec
from sensecrypt.lab.experiments.uneven_data import LARGE, SMALL, cells, draw, judge
from sensecrypt.lab.experiments.uneven_rounds import MASK, NOTHING, OURS, SENSE

KINDS = ("iid", "5", "2", "1")
RISING = (0.2, 0.3, 0.5, 0.7)
READING = {SMALL: "drawn-200", LARGE: "whole-1"}
OFF = (-0.02, 0.02) * 5


def row(network, kind, method, adversary, leacc, lnacc, client):
    shown = {"network": network, "reading": READING[network], "classes": kind, "method": method}
    return {**shown, "adversary": adversary, "client": client, "seed": 0, "share": 0.03, "leacc": leacc, "lnacc": lnacc}


@pytest.fixture
def rows():
    """As the paper tells it; of the large network, three clients."""
    found = []
    for network, clients in ((SMALL, 10), (LARGE, 3)):
        for kind, rising in zip(KINDS, RISING, strict=True):
            for client, off in enumerate(OFF[:clients]):
                found.append(row(network, kind, NOTHING, "prior", 0.9, 0.2, client))
                found.append(row(network, kind, NOTHING, "zero-fill", 1.0, 1.0, client))
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


def test_the_papers_own_figures_are_all_reproduced_and_three_clients_are_too_few(rows):
    outcomes = [verdict.outcome for verdict in judge(rows)]
    assert outcomes == ["reproduced"] * 5 + ["beyond"] * 2 + ["too little to tell"] * 5 + ["beyond"]
    assert "3 clients, not 10: " in judge(rows)[7].measured


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


def test_a_smaller_rise_is_a_matter_of_shape_within_its_tolerance(rows):
    verdict = judge(changed(rows, 0.38, "lnacc", SENSE, "1"))[1]
    assert verdict.outcome == "reproduced in shape"
    assert "in shape: at most 0.20" in verdict.measured
    assert judge(changed(rows, 0.42, "lnacc", SENSE, "1"))[1].outcome == "not reproduced"  # though below half of 0.5


def test_where_maskcrypt_does_not_rise_either_static_is_a_matter_of_shape(rows):
    level = changed(changed(changed(rows, 0.2, "lnacc", MASK, "1"), 0.2, "lnacc", MASK, "2"), 0.2, "lnacc", MASK, "5")
    assert [verdict.outcome for verdict in judge(level)[:2]] == ["not reproduced", "reproduced in shape"]


def test_seeds_are_clients_of_their_own(rows):
    again = [{**each, "seed": 1, "lnacc": 1.0} for each in rows]
    assert "0.60 0.60 0.60 0.60 in rounds 1 to 4" in judge([*rows, *again])[1].measured


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    spec = read_spec("uneven-data", scale, {}).settings
    names = [cell.name for cell in cells(spec)]
    assert len(set(names)) == len(names) == len(spec["readings"]) * spec["seeds"] + (spec["large_clients"] > 0)


@pytest.mark.parametrize("reading", ["half-1", "whole-2", "drawn-0"])
def test_a_reading_must_be_one(reading):
    spec = read_spec("uneven-data", "quick", {}).settings
    with pytest.raises(InvalidInput, match="readings"):
        cells({**spec, "readings": [reading]})


def test_digits_are_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(uneven_data._SETTINGS, SMALL, ("digits-mlp", "digits"))
    spec = read_spec("uneven-data", "quick", {}).settings
    rows = [each for cell in cells({**spec, "strong_clients": 1}) for each in cell.measure(tmp_path)]
    assert {each["reading"] for each in rows} == {"drawn-20", "whole-1"}
    assert {each["client"] for each in rows} == set(range(10))
    assert len(judge(rows)) == 14
