from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest

from sensecrypt.lab.experiments import components
from sensecrypt.lab.experiments.components import OURS, STOCK, cells, draw, judge, step_rows
from sensecrypt.lab.experiments.specs import read_spec
from sensecrypt.records import read_record
from sensecrypt.simulation.clock import CostModel

TIMES = {
    STOCK: {"training": 7.4, "sensitivity": 0.1, "selection": 13.0, "encryption": 87.0, "decryption": 9.0}
    | {"aggregation": 88.0},
    OURS: {"training": 7.4, "sensitivity": 0.1, "selection": 0.02, "encryption": 1.0, "decryption": 2.0}
    | {"aggregation": 0.5, "clustering": 0.01},
}


def row(side, step, seconds, client=None):
    return {"side": side, "step": step, "client": client, "seconds": seconds, "share": 0.2}


@pytest.fixture
def rows():
    return [
        row(side, step, factor * seconds, client)
        for side, (client, factor) in product(TIMES, ((1, 0.9), (2, 1.0), (3, 1.1)))
        for step, seconds in TIMES[side].items()
    ]


def outcomes(rows):
    return [verdict.outcome for verdict in judge(rows)]


def changed(rows, side, step, seconds):
    return [each | {"seconds": seconds} if (each["side"], each["step"]) == (side, step) else each for each in rows]


def test_the_papers_table_has_its_own_selection_time(rows):
    assert outcomes(rows) == ["reproduced"] * 5 + ["not reproduced", "beyond"]


def test_outcomes_follow_the_rows(rows):
    fast = changed(rows, STOCK, "selection", 0.02)
    assert [outcomes(fast)[place] for place in (0, 5)] == ["reproduced in shape", "beyond"]
    assert outcomes(changed(rows, STOCK, "decryption", 200.0))[0] == "not reproduced"
    assert outcomes(changed(rows, STOCK, "training", 0.1))[1] == "reproduced in shape"
    assert outcomes(changed(rows, STOCK, "sensitivity", 1.0))[2] == "reproduced in shape"
    assert outcomes(changed(rows, STOCK, "sensitivity", 9.0))[2] == "not reproduced"
    assert outcomes(changed(rows, STOCK, "aggregation", 9.0))[3] == "not reproduced"
    assert outcomes(changed(rows, OURS, "clustering", 9.0))[4] == "not reproduced"
    assert outcomes(changed(rows, OURS, "encryption", 80.0))[6] == "not reproduced"


def test_the_picture(rows):
    assert len(draw(rows).axes) == 1


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("components", scale, {}).settings)]
    assert len(set(names)) == len(names)


def test_steps_from_the_records_of_a_run():
    spent = {"train_seconds": 1.0, "sensitivity_seconds": 0.1, "select_seconds": 0.2, "protect_seconds": 0.5}
    log = [
        {"round": -1, "client": 0},
        {"round": 0, "client": 0, **spent, "encrypt_seconds": 2.0, "encrypted_share": 0.3},
        {"round": 0, "client": 1, "left_out": "late"},
        {"round": 0, "server": True, "release_seconds": 1.0, "decrypt_seconds": 2.0, "union_share": 0.4}
        | {"aggregate_seconds": 0.5, "add_seconds": 0.5},
    ]
    log = [read_record({"cluster": 0, **line}) for line in log]
    rows = step_rows(SimpleNamespace(log=log, config=SimpleNamespace(problem=SimpleNamespace(clients=2))), "default")
    seconds = {each["step"]: each["seconds"] for each in rows}
    assert seconds == {"training": 1.0, "sensitivity": 0.1, "selection": 0.2, "encryption": 2.5} | {
        "decryption": 3.0,
        "aggregation": 10.0,  # of 20 clients
    }
    assert {each["side"] for each in rows} == {OURS}


def test_ciphertexts_times_weights_and_clients_that_decrypt(monkeypatch):
    cost_model = CostModel(encrypt=2.0, add=0.125, decrypt=1.0, multiply=0.5, add_plain=0.25)
    monkeypatch.setattr(components, "stock_cost_model", lambda: cost_model)
    work = {"train_seconds": 1.0, "sensitivity_seconds": 0.1, "select_seconds": 0.2, "protect_seconds": 0.5}
    own = {"encrypted_blocks": 4, "encrypted_share": 0.3, "release_seconds": 0.5, "decrypted_blocks": 6}
    summed = {"added_blocks": 8, "multiplied_blocks": 8, "plain_added_blocks": 4, "aggregate_seconds": 1.0}
    log = [
        *({"round": 0, "cluster": 0, "client": client, **work, **own} for client in range(2)),
        {"round": 0, "cluster": 0, "server": True, "union_share": 0.4, **summed},
    ]
    log = list(map(read_record, log))
    rows = step_rows(SimpleNamespace(log=log, config=SimpleNamespace(problem=SimpleNamespace(clients=2))), "paper")
    found = {step: [each for each in rows if each["step"] == step] for step in ("decryption", "aggregation")}
    assert [(each["client"], each["seconds"], each["share"]) for each in found["decryption"]] == [
        (1, 6.5, 0.4),
        (2, 6.5, 0.4),
    ]
    # 20 uploads instead of 2; adding plain sums is once for all uploads.
    assert [each["seconds"] for each in found["aggregation"]] == [10 * (1.0 + 8 * 0.125 + 8 * 0.5) + 4 * 0.25]
