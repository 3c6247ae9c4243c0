from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments import strategies
from sensecrypt.lab.experiments.specs import read_spec
from sensecrypt.lab.experiments.strategies import cells, draw, judge

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)


def row(first, share, adversary, mi, leacc, lnacc):
    shown = {"model": "resnet50", "first": first, "share": share, "adversary": adversary, "mi": mi, "mi_50": 2 * mi}
    return {**shown, "seeds": 10, "leacc": leacc, "lnacc": lnacc}


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


def test_random_must_reach_the_same_protection(rows):
    assert judge(changed(rows, "random", "lnacc", 0.6))[5].outcome == "not reproduced"


def test_other_numbers_of_bins_stand_beside(rows):
    assert "at 0, 20% and 80%: 6.00, 0.20, 0.20 with 50 bins" in judge(rows)[2].measured


def test_cells_of_one_network_are_put_together_and_networks_are_judged_apart(rows):
    half = [{**each, "lnacc": 0.0, "seeds": 30} for each in rows if each["adversary"] == "zero-fill"]
    assert "plaintext 1.00/0.25" in judge([*rows, *half])[3].measured
    both = [*rows, *({**each, "model": "lenet5"} for each in changed(rows, "low", "lnacc", 0.3))]
    assert [verdict.outcome for verdict in judge(both)][:8] == [verdict.outcome for verdict in judge(rows)]
    assert judge(both)[8].says.startswith("LeNet-5: ")
    assert judge(both)[11].outcome == "not reproduced"


def test_two_clients_are_too_little_to_tell(rows):
    few = [{**each, "seeds": 2} for each in rows]
    assert [verdict.outcome for verdict in judge(few)] == ["too little to tell"] * 7 + ["beyond"]


def test_with_few_labels_only_what_is_missed_by_far_is_told(rows):
    few = [{**each, "seeds": 4} for each in rows]
    assert [verdict.outcome for verdict in judge(few)[3:7]] == [
        "too little to tell",
        "reproduced",  # by 0.4, where chance explains 0.22
        "too little to tell",
        "too little to tell",
    ]
    assert "40 labels per point, fewer than 100" in judge(few)[3].measured
    assert judge(changed(few, "low", "lnacc", 0.5))[3].outcome == "not reproduced"
    assert judge(changed(few, "low", "lnacc", 0.5))[4].outcome == "too little to tell"


def test_twice_as_much_is_meant_up_to_a_parameter(rows):
    late = [
        {**each, "lnacc": 0.1 if each["share"] > 0.15 else 1.0} if each["first"] == "random" else each for each in rows
    ]
    late = [{**each, "share": 0.19999} if each["share"] == 0.2 else each for each in late]
    assert judge(late)[5].outcome == "reproduced"


def test_labels_that_are_told_present_again_are_a_matter_of_shape(rows):
    assert judge(changed(rows, "high", "leacc", 0.9))[3].outcome == "reproduced in shape"


def test_the_same_rows_give_the_same_picture(rows):
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    spec = read_spec("strategies", scale, {}).settings
    names = [cell.name for cell in cells(spec)]
    assert len(set(names)) == len(names) == spec["seeds"] + 2
    assert (spec["model"], spec["dataset"], spec["samples"], spec["shares"][-1]) == ("resnet50", "mnist", 30, 0.8)


def test_digits_are_measured(tmp_path):
    spec = {"model": "digits-mlp", "dataset": "digits", "samples": 12, "first_seed": 0, "seeds": 0, "small_seeds": 3}
    spec |= {"small_model": "digits-mlp", "bins": [20, 50], "shares": [0.1, 0.5], "strong_shares": [0.5]}
    spec |= {"strong_seeds": 1, "public_per_class": 5}
    rows = [each for cell in cells(spec) for each in cell.measure(tmp_path)]
    assert {each["first"] for each in rows} == {"nothing", *strategies.FIRST}
    assert all(each["mi_50"] > each["mi"] for each in rows)
    assert len(judge(rows)) == 8
    at_half = {
        each["first"]: each["lnacc"] for each in rows if each["share"] > 0.4 and each["adversary"] == "zero-fill"
    }
    assert at_half["low"] > at_half["high"] + 0.3


def test_small_grey_images_are_made_to_fit_resnet50():
    digits = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 1, 28, 28)
    images, build = strategies._fitted("resnet50", digits, 10)
    assert images.shape == (2, 3, 32, 32)
    assert (images[:, 1, 2:30, 2:30] == digits[:, 0]).all()
    assert images[:, :, :2].sum() == images[:, :, :, 30:].sum() == 0
    head = list(build(3).children())[-1]
    assert head.out_features == 10
    assert (head.weight == list(build(3).children())[-1].weight).all()
    assert strategies._fitted("lenet5", digits, 10) == (digits, "lenet5")
