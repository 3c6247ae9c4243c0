from __future__ import annotations

from pathlib import Path

import pytest

from sensecrypt.lab.experiments import fedml_he
from sensecrypt.lab.experiments.fedml_he import MAP, MASKCRYPT, PUBLISHED, SENSECRYPT, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec

TIMES = {PUBLISHED: 20_000.0, MAP: 0.5, SENSECRYPT: 0.01, MASKCRYPT: 0.02}


@pytest.fixture
def rows():
    return [
        {"model": model, "parameters": 50_890, "samples": 200, "timed_passes": 200, "map_mb": 60.0}
        | {"method": method, "seconds": seconds, "extrapolated": method == PUBLISHED, "paper_seconds": None}
        for model in ("mlp", "alexnet")
        for method, seconds in TIMES.items()
    ]


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def changed(rows, method, **new):
    return [row | new if row["method"] == method and row["model"] == "mlp" else row for row in rows]


def test_hours_as_published_and_seconds_our_way(rows):
    assert outcomes(rows) == ["reproduced", "reproduced", "reproduced", "beyond"]


def test_outcomes_follow_the_rows(rows):
    assert outcomes(changed(rows, PUBLISHED, seconds=9_000.0))[0] == "reproduced in shape"
    assert outcomes(changed(rows, PUBLISHED, seconds=1.0))[0] == "not reproduced"
    assert outcomes(changed(rows, SENSECRYPT, seconds=0.2))[2] == "reproduced in shape"
    assert outcomes(changed(rows, MASKCRYPT, seconds=200.0))[2] == "not reproduced"
    assert outcomes(changed(rows, MAP, seconds=100.0))[3] == "not reproduced"
    assert outcomes(changed(rows, PUBLISHED, map_mb=50_000.0))[3] == "not reproduced"


def test_the_picture(rows):
    assert len(draw(rows).axes) == 2


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("fedml-he", scale, {}).settings)]
    assert names == ["mlp", "alexnet"]


def test_rows_are_those_of_the_benchmark(monkeypatch):
    timed = [{"method": method, "seconds": seconds} for method, seconds in TIMES.items()]
    measured = {"model": "mlp", "parameters": 50_890, "samples": 200, "rows": timed, "map_mb": 60.0}
    report = {"repeats": 3, "timed_passes": 200, "models": [measured]}
    monkeypatch.setattr(fedml_he, "run", lambda *_models, **_settings: report)
    rows = fedml_he._measure({"samples": 200, "repeats": 3, "seed": 0}, "mlp", Path())
    assert [row["method"] for row in rows] == list(TIMES)
    assert outcomes(rows) == ["reproduced", "reproduced", "beyond"]
