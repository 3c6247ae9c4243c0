from __future__ import annotations

import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments.layouts import LAYOUTS, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec


def of_layout(name, *, ciphertexts, coverage, lonely, recovered, alone, together):
    client = {"kind": "client", "client": 0, "ciphertexts": ciphertexts, "bytes_up": 512 * ciphertexts}
    client |= {"encrypted_share": 0.4, "coverage": coverage}
    total = {
        "kind": "sum",
        "cluster": 0,
        "union_share": 0.5,
        "under_covered_blocks": lonely,
        "shared": 1 - lonely / 100,
    }
    found = [client, total]
    for role, lnacc, back in (("aggregator", alone, 0.0), ("aggregator+client", together, recovered)):
        common = {"kind": "attack", "client": 0, "role": role, "recovered": back}
        found += [common | {"adversary": "prior", "lnacc": 0.1}, common | {"adversary": "prototype", "lnacc": lnacc}]
    return [{"layout": name, **row} for row in found]


def rows(**prefix):
    best = {"ciphertexts": 300, "coverage": 0.9, "lonely": 0, "recovered": 0.0, "alone": 0.1, "together": 0.1}
    open_ = {"lonely": 20, "recovered": 0.1, "alone": 0.6, "together": 0.5}
    return [
        *of_layout("individual", ciphertexts=20000, coverage=0.99, **open_),
        *of_layout("blocks", ciphertexts=300, coverage=0.9, **open_),
        *of_layout("prefix", **{**best, **prefix}),
    ]


def test_a_prefix_that_gives_nothing_away_goes_beyond():
    assert [verdict.outcome for verdict in judge(rows())] == ["beyond"] * 6


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"ciphertexts": 5000}, 0),
        ({"coverage": 0.8}, 1),
        ({"lonely": 1}, 2),
        ({"recovered": 0.01}, 3),
        ({"alone": 0.3}, 4),
        ({"together": 0.3}, 5),
    ],
)
def test_a_worse_prefix_flips_its_outcome(change, place):
    assert judge(rows(**change))[place].outcome == "not reproduced"


def test_who_has_a_member_can_do_without():
    measured = judge(rows())[5].measured
    assert "individual 0.60 (prototype)" in measured


def test_the_picture_has_six_panels_and_the_same_bytes():
    assert len(draw(rows()).axes) == 6
    with style("figures"):
        assert to_png(draw(rows())) == to_png(draw(rows()))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_are_a_layout_each(scale):
    spec = read_spec("layouts", scale, {}).settings
    assert [cell.name for cell in cells(spec)] == list(LAYOUTS)


def test_digits_are_measured(tmp_path):
    spec = read_spec("layouts", "quick", {"dataset": "digits", "every": "10"}).settings
    found = next(cell for cell in cells(spec) if cell.name == "blocks").measure(tmp_path)
    assert {row["kind"] for row in found} == {"client", "sum", "attack"}
    assert {row["client"] for row in found if row["kind"] == "attack"} == {0, 10}
    assert all(0 <= row["shared"] <= 1 for row in found if row["kind"] == "sum")
