from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.config import make_config, to_settings
from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments import extreme_devices
from sensecrypt.lab.experiments.extreme_devices import LARGE, READINGS, SMALL, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec

CPUS = (32.0, 8.0, 1.0)
LOWEST = {SMALL: 0.031, LARGE: 0.057}


def attack(network, preset, adversary, cpus, leacc, lnacc, run=0):
    shown = {"kind": "attack", "network": network, "preset": preset, "adversary": adversary, "cpus": cpus, "run": run}
    return {**shown, "reading": "all", "share": cpus / 32, "seeds": 3, "leacc": leacc, "lnacc": lnacc}


def share(network, reading, cpus, ratio):
    shown = {"kind": "share", "network": network, "preset": "paper", "reading": reading, "cpus": cpus, "run": 0}
    return {**shown, "share": ratio, "budget": cpus / 32, "mi": 1.9, "decided_by": "mi", "feasible": cpus > 1}


@pytest.fixture
def rows():
    found = []
    for network in (SMALL, LARGE):
        for cpus in CPUS:
            ratio = LOWEST[network] * {32.0: 8, 8.0: 4, 1.0: 1}[cpus]
            found += [share(network, reading, cpus, ratio) for reading in READINGS]
        for run in range(10):
            for cpus in (*CPUS, 0.0):
                found.append(attack(network, "paper", "prior", cpus, 0.9, 0.2, run))
                found.append(
                    attack(network, "paper", "zero-fill", cpus, 0.4 if cpus else 1.0, 0.1 if cpus else 1.0, run)
                )
                found.append(attack(network, "paper", "completion", cpus, 0.5, 0.3 if cpus else 1.0, run))
    for cpus in (1.0, 0.0):
        found.append(attack(SMALL, "default", "prior", cpus, 0.9, 0.2))
        found.append(attack(SMALL, "default", "value-matching", cpus, 0.9, 0.2))
        found.append(attack(SMALL, "default", "collusion", cpus, 0.9, 0.8))
    return found


def changed(rows, key, value, **which):
    return [{**each, key: value} if all(each.get(k) == v for k, v in which.items()) else each for each in rows]


def test_outcomes_follow_from_the_rows(rows):
    outcomes = [verdict.outcome for verdict in judge(rows)]
    papers = ["reproduced", "beyond", "reproduced", "reproduced", "beyond"]
    assert outcomes == papers * 2 + ["beyond", "not reproduced"]


def test_a_slow_client_that_is_read_flips_them(rows):
    slow = {"network": SMALL, "preset": "paper", "cpus": 1.0}
    assert judge(changed(rows, "leacc", 0.9, adversary="zero-fill", **slow))[2].outcome == "not reproduced"
    assert judge(changed(rows, "lnacc", 0.9, adversary="zero-fill", **slow))[3].outcome == "not reproduced"
    assert judge(changed(rows, "lnacc", 0.9, adversary="completion", **slow))[4].outcome == "not reproduced"
    learnt = changed(rows, "lnacc", 0.5, preset="default", adversary="value-matching", cpus=1.0)
    assert judge(learnt)[-2].outcome == "not reproduced"


def test_a_fast_client_that_is_a_little_off_is_a_matter_of_shape_with_its_tolerance(rows):
    fast = {"network": SMALL, "preset": "paper", "adversary": "zero-fill", "cpus": 32.0}
    verdict = judge(changed(rows, "leacc", 0.55, **fast))[2]
    assert verdict.outcome == "reproduced in shape"
    assert "in shape: at most 0.20" in verdict.measured
    assert judge(changed(rows, "leacc", 0.65, **fast))[2].outcome == "not reproduced"


def test_few_labels_are_too_little_to_tell_whether_leacc_is_static(rows):
    few = [row for row in rows if row["run"] < 2]
    assert judge(few)[2].outcome == "too little to tell"  # 20 labels per client
    assert judge(few)[7].outcome == "reproduced"  # 200


@pytest.mark.parametrize(
    ("cpus", "ratio", "outcome"),
    [
        (1.0, 0.040, "reproduced in shape"),  # ends elsewhere
        (8.0, 0.248, "reproduced in shape"),  # does not fall from client to client
        (8.0, 0.300, "not reproduced"),  # rises
        (1.0, 0.123, "reproduced in shape"),
        (1.0, 0.124, "not reproduced"),  # half of its start
    ],
)
def test_the_ratio_must_fall_to_the_papers(rows, cpus, ratio, outcome):
    which = {"kind": "share", "network": SMALL, "reading": "all", "cpus": cpus}
    assert judge(changed(rows, "share", ratio, **which))[0].outcome == outcome


def test_a_ratio_that_hardly_falls_is_not_the_papers(rows):
    level = changed(rows, "share", 0.03, kind="share", network=SMALL, reading="all")
    assert judge(level)[0].outcome == "not reproduced"


def test_the_reading_of_the_spec_is_judged_the_others_stand_beside(rows):
    other = changed(rows, "share", 0.9, kind="share", network=SMALL, reading="feasible", cpus=32.0)
    assert judge(other)[0].outcome == "reproduced"
    assert "feasible masks: 90.0 12.4 3.1 %" in judge(other)[1].measured
    assert "65.2% of the model apart, with 32 CPUs" in judge(other)[1].measured


def test_infeasible_clients_and_impossible_ratios_are_told(rows):
    told = judge(rows)[0].measured
    assert "for 1 of 3 clients (with 1 CPUs), which then encrypt their whole budget. Reproduced" in told
    met = changed(rows, "feasible", True, kind="share", cpus=1.0)
    assert "some mask meets all constraints for each of 3 clients" in judge(met)[0].measured
    assert "a budget of 1/32 allows no 5.7%" in judge(rows)[5].measured


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    spec = read_spec("extreme-devices", scale, {}).settings
    names = [cell.name for cell in cells(spec)]
    assert len(set(names)) == len(names) == 1 + spec["runs"] + spec["large_runs"]
    preset = to_settings(make_config({"preset": "paper"}))
    assert all(spec[key] == preset[key] for key in ("normalise", "bins", "B", "C", "max_mi"))
    assert [preset[key] for key in ("objective", "on_infeasible", "gradient")] == ["balance", "budget", "start"]
    assert spec["cpus"] == [32, 24, 16, 12, 10, 8, 2, 1]


def test_a_round_of_nine_clients_is_measured_with_shares_from_select(tmp_path, monkeypatch):
    monkeypatch.setitem(extreme_devices._SETTINGS, SMALL, ("digits-mlp", "digits"))
    spec = read_spec("extreme-devices", "quick", {"runs": "1", "default_seeds": "0", "samples": "20"}).settings
    [cell] = cells({**spec, "normalise": "feasible", "attacks": ["zero-fill", "prototype"], "public_per_class": 5})
    rows = cell.measure(tmp_path)
    shares = [row for row in rows if row["kind"] == "share"]
    assert len(shares) == 8 * 3
    assert all(row["share"] <= row["budget"] for row in shares)
    attacks = [row for row in rows if row["kind"] == "attack"]
    assert len(attacks) == 9 * 3
    used = {row["cpus"]: row["share"] for row in shares if row["reading"] == "feasible"}
    assert all(row["share"] == used.get(row["cpus"], 0.0) for row in attacks)
    assert {row["share"] for row in attacks if row["cpus"] == 0} == {0.0}
    by_reading = [[row["share"] for row in shares if row["reading"] == reading] for reading in READINGS]
    assert not np.allclose(by_reading[0], by_reading[2])
    assert judge(rows)
