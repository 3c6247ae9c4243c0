from __future__ import annotations

import copy

import pytest

from sensecrypt.lab.experiments.ladder import draw, judge


def row(policy, preset, share, adversary, lnacc, distribution="iid", rest="plain"):
    return {"policy": policy, "preset": preset, "share": share, "adversary": adversary, "lnacc": lnacc} | {
        "distribution": distribution,
        "rest": rest,
    }


@pytest.fixture
def rows():
    found = []
    for kind, guess in (("iid", 0.2), ("1", 0.0)):
        found += [
            row("plaintext", "paper", 0.0, "prior", guess, kind),
            row("plaintext", "paper", 0.0, "zero-fill", 1.0, kind),
        ]
        found += [row("sensecrypt", "paper", 0.031, "prior", guess, kind)]
        found += [row("sensecrypt", "paper", 0.031, "zero-fill", 0.1, kind)]
        found += [row("sensecrypt", "paper", 0.031, "prototype", 0.9, kind)]
        for share in (0.2, 1.0):
            found += [row("sensecrypt", "default", share, name, guess, kind) for name in ("prior", "prototype")]
            found += [row("sensecrypt", "default", share, "collusion", 0.8 if share < 1 else guess, kind)]
        found += [
            row("sensecrypt", "default", 0.2, name, guess, kind, "blinded") for name in ("prototype", "collusion")
        ]
    return found


def test_outcomes_follow_from_the_strongest_adversary(rows):
    whole, blinded, plain, paper = judge(rows)
    assert [each.outcome for each in (whole, blinded, plain)] == ["beyond", "beyond", "not reproduced"]
    assert paper.outcome == "not reproduced"
    assert "with a member 0.80 (collusion, 1 class(es))" in plain.measured
    assert "the rest blinded" in blinded.says
    assert "0.90 for the strongest (prototype, 1 class(es))" in paper.measured


@pytest.mark.parametrize(
    ("share", "adversary", "place"), [(1.0, "collusion", 0), (1.0, "prototype", 0), (0.2, "prototype", 1)]
)
def test_one_adversary_that_learns_something_flips_an_outcome(rows, share, adversary, place):
    changed = copy.deepcopy(rows)
    for each in changed:
        if (each["preset"], each["share"], each["adversary"]) == ("default", share, adversary):
            each["lnacc"] = 0.5
    assert judge(changed)[place].outcome == "not reproduced"


def test_a_policy_that_withstands_everybody_is_told(rows):
    strong = [each | ({"lnacc": 0.1} if each["adversary"] == "prototype" else {}) for each in rows]
    assert judge(strong)[3].outcome == "reproduced"


def test_the_picture_has_a_panel_a_distribution(rows):
    figure = draw(rows)
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes[:2]] == [
        "IID",
        "1 class(es) per client",
    ]
