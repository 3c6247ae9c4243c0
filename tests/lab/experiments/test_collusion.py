from __future__ import annotations

import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments import collusion
from sensecrypt.lab.experiments.collusion import COVERED, DEFAULT, PAPER, PART, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec


def row(protocol, colluders, recovered, most):
    told = {"protocol": protocol, "cluster": 0, "members": 5, "client": 0, "encrypted": 0.3, "error": 1e-7}
    return {**told, "colluders": colluders, "recovered": recovered, "most": most}


@pytest.fixture
def rows():
    """As the theorem has it."""
    return [
        row(each, many, float(many == 4), float(many == 4))
        for each in (PAPER, DEFAULT, PART, COVERED)
        for many in range(5)
    ]


def changed(rows, protocol, colluders, value):
    wanted = (protocol, colluders)
    return [
        {**each, "recovered": value, "most": value} if (each["protocol"], each["colluders"]) == wanted else each
        for each in rows
    ]


def test_the_theorem_as_stated(rows):
    assert [verdict.outcome for verdict in judge(rows)] == ["reproduced"] * 2 + ["beyond"] * 4


@pytest.mark.parametrize(
    ("place", "protocol", "colluders", "value"),
    [(0, PAPER, 4, 0.5), (1, PAPER, 2, 0.01), (2, DEFAULT, 3, 0.01), (3, PART, 2, 0.01), (5, COVERED, 1, 0.01)],
)
def test_one_value_too_many_or_too_few_flips_an_outcome(rows, place, protocol, colluders, value):
    assert judge(changed(rows, protocol, colluders, value))[place].outcome == "not reproduced"


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("collusion", scale, {}).settings)]
    assert len(set(names)) == len(names) == 6


@pytest.mark.parametrize("profile", ["insecure-test", "paillier-2048-slot64"])  # whose clients, whose server weighs
def test_recorded_runs_give_back_what_only_one_honest_client_encrypted(tmp_path, monkeypatch, profile):
    paper = {"preset": "paper", "profile": profile, "layout": "blocks"}
    whole = {"policy": "full", "profile": "insecure-test"}
    monkeypatch.setattr(collusion, "PROTOCOLS", {PAPER: paper, DEFAULT: whole})
    spec = read_spec("collusion", "quick", {"clients": "4"}).settings
    rows = []
    for cell in cells(spec):
        folder = tmp_path / cell.name
        folder.mkdir()
        rows += cell.measure(folder)
    assert len(rows) == 2 * 4 * 4
    assert all(each["recovered"] == 1 for each in rows if each["colluders"] == 3)
    assert all(each["most"] == 0 for each in rows if each["protocol"] == DEFAULT and each["colluders"] < 3)
    assert max(each["error"] for each in rows) < 1e-5
    assert any(each["most"] > 0 for each in rows if each["protocol"] == PAPER and each["colluders"] == 2)
