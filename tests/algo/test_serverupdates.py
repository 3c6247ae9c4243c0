"""Server rules against their published equations, coordinate by coordinate in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.algo.serverupdates import RULES, ServerRule
from sensecrypt.errors import InvalidInput

MEANS = [np.array([0.5, -0.25, 0.0]), np.array([0.1, 0.3, -2.0]), np.array([-0.4, 0.0, 1.0])]


def published(name: str, rule: ServerRule, history: list[float]) -> float:
    """The step of the last round for one coordinate, from all its mean updates."""
    momentum, first, second, step = 0.0, 0.0, rule.tau**2, 0.0
    for mean in history:
        if name == "fedavg":
            step = rule.learning_rate * mean
        elif name == "fedavgm":
            momentum = rule.momentum * momentum + mean
            step = rule.learning_rate * momentum
        else:
            first = rule.momentum * first + (1 - rule.momentum) * mean
            if name == "fedadam":
                second = rule.beta2 * second + (1 - rule.beta2) * mean**2
            else:
                sign = (second > mean**2) - (second < mean**2)
                second = second - (1 - rule.beta2) * mean**2 * sign
            step = rule.learning_rate * first / (math.sqrt(second) + rule.tau)
    return step


@pytest.mark.parametrize("name", RULES)
def test_steps_follow_the_published_equations(name):
    rule, state = ServerRule(name, 0.3, 0.8, 0.95, 0.01), {}
    for number, mean in enumerate(MEANS):
        step, state = rule.step(mean, state)
        expected = [published(name, rule, [float(each[k]) for each in MEANS[: number + 1]]) for k in range(3)]
        assert step == pytest.approx(expected, rel=1e-12)


def test_fedavg_as_it_is_changes_no_bit():
    mean = np.random.default_rng(0).normal(size=1000)
    step, state = ServerRule().step(mean, {})
    assert step.tobytes() == mean.tobytes()
    assert state == {}


@given(
    st.sampled_from(sorted(RULES)),
    st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=1, max_size=8),
    st.floats(0.01, 10),
)
def test_no_step_is_longer_than_the_rules_reach(name, rows, clip):
    rule, state = ServerRule(name, 0.5, 0.9, 0.99, 0.01), {}
    for row in rows:
        mean = np.array(row)
        mean *= min(1.0, clip / max(float(np.linalg.norm(mean)), 1e-300))
        step, state = rule.step(mean, state)
        assert np.linalg.norm(step) <= rule.reach(clip) * (1 + 1e-9)


@pytest.mark.parametrize(
    "settings",
    [("fedprox",), ("fedavg", 0.0), ("fedavgm", 1.0, 1.0), ("fedadam", 1.0, 0.9, 1.0), ("fedyogi", 1, 0.9, 0.9, 0.0)],
)
def test_what_is_no_rule_is_refused(settings):
    with pytest.raises(InvalidInput):
        ServerRule(*settings)
