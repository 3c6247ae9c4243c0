from __future__ import annotations

import pytest

from sensecrypt.lab.experiments.specs import read_spec
from sensecrypt.lab.experiments.two_servers import METHODS, ONE, STEPS, TWO, cells, draw, judge


def rows(decrypt=50.0, relieved=0.0):
    return [
        {"dataset": "fashion-mnist", "method": method, "client": client, "cpus": cpus}
        | {"round_seconds": 30.0, "server_seconds": 1.0, **dict.fromkeys(STEPS, 10.0 / cpus)}
        | {"decrypt": (decrypt if method == ONE else relieved) / cpus}
        for method in METHODS
        for client, cpus in enumerate((24, 8))
    ]


def test_clients_that_do_not_decrypt_are_relieved():
    [verdict] = judge(rows())
    assert verdict.outcome == "reproduced"
    assert "50% of a client" in verdict.measured
    assert judge(rows(relieved=50.0))[0].outcome == "not reproduced"


def test_the_picture_has_a_panel_a_data_set():
    [axes] = draw(rows()).axes
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {ONE, TWO}


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_are_a_data_set_each(scale):
    spec = read_spec("two-servers", scale, {}).settings
    assert [cell.name for cell in cells(spec)] == spec["datasets"]
