"""Server updates: the model's step from the mean update of a round.

FedAvg adds the mean. FedAvgM (Hsu et al. 2019) adds it to a momentum. FedAdam and FedYogi (Reddi et al. 2021, Algorithm
2, without bias correction) scale every coordinate by its past second moment. A new rule is one function in `RULES`:
(mean update, state, settings) → (step, state). A state is a set of named vectors, empty at first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

State = Mapping[str, checks.FloatVector]


@dataclass(frozen=True)
class ServerRule:
    """A rule and its settings.

    Attributes:
        rule: a name in `RULES`.
        learning_rate: η, the server's learning rate.
        momentum: β₁: decay of the momentum in FedAvgM, of the first moment in FedAdam and FedYogi.
        beta2: β₂: decay of the second moment.
        tau: τ, which keeps steps small for coordinates that did not change.
        statistics: number of values at the end that are statistics, such as the running means of batch normalisation;
            under every rule, the unchanged mean is added to them.
    """

    rule: str = "fedavg"
    learning_rate: float = 1.0
    momentum: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    statistics: int = 0

    def __post_init__(self) -> None:
        """Refuse unknown rules, and settings that do not bound the steps."""
        checks.choice("server", self.rule, tuple(RULES))
        checks.number("server_learning_rate", self.learning_rate, low=0.0, high=1e6, open_low=True)
        for name, value in (("server_momentum", self.momentum), ("server_beta2", self.beta2)):
            if not 0 <= checks.number(name, value, low=0.0, high=1.0) < 1:
                raise InvalidInput(name, f"is {value}", "give a number below 1")
        checks.number("server_tau", self.tau, low=1e-12, high=1e6)
        checks.whole("statistics", self.statistics, low=0)

    def step(self, mean: checks.FloatVector, state: State) -> tuple[checks.FloatVector, dict[str, checks.FloatVector]]:
        """Return the step for a round's mean update, and the new state."""
        if not self.statistics:
            return RULES[self.rule](mean, state, self)
        parameters = mean.size - self.statistics
        step, after = RULES[self.rule](mean[:parameters], state, self)
        return np.concatenate([step, mean[parameters:]]), after

    def reach(self, clip: float) -> float:
        """Return a bound on the L2 norm of the parameters' step if no update's norm exceeds `clip`."""
        if self.rule == "fedavg":
            return self.learning_rate * clip
        if self.rule == "fedavgm":
            return self.learning_rate * clip / (1 - self.momentum)
        return self.learning_rate * clip / self.tau


def _fedavg(
    mean: checks.FloatVector, _state: State, rule: ServerRule
) -> tuple[checks.FloatVector, dict[str, checks.FloatVector]]:
    return rule.learning_rate * mean, {}


def _fedavgm(
    mean: checks.FloatVector, state: State, rule: ServerRule
) -> tuple[checks.FloatVector, dict[str, checks.FloatVector]]:
    momentum = rule.momentum * _vector(state, "momentum", mean) + mean
    return rule.learning_rate * momentum, {"momentum": momentum}


def _fedadam(
    mean: checks.FloatVector, state: State, rule: ServerRule
) -> tuple[checks.FloatVector, dict[str, checks.FloatVector]]:
    first = _first_moment(mean, state, rule)
    second = rule.beta2 * _second_moment(mean, state, rule) + (1 - rule.beta2) * mean**2
    return _scaled(first, second, rule)


def _fedyogi(
    mean: checks.FloatVector, state: State, rule: ServerRule
) -> tuple[checks.FloatVector, dict[str, checks.FloatVector]]:
    first, before = _first_moment(mean, state, rule), _second_moment(mean, state, rule)
    second = before - (1 - rule.beta2) * mean**2 * np.sign(before - mean**2)
    return _scaled(first, second, rule)


RULES: dict[
    str,
    Callable[[checks.FloatVector, State, ServerRule], tuple[checks.FloatVector, dict[str, checks.FloatVector]]],
] = {"fedavg": _fedavg, "fedavgm": _fedavgm, "fedadam": _fedadam, "fedyogi": _fedyogi}


def _vector(state: State, name: str, like: checks.FloatVector) -> checks.FloatVector:
    return state[name] if name in state else np.zeros_like(like)


def _first_moment(mean: checks.FloatVector, state: State, rule: ServerRule) -> checks.FloatVector:
    return rule.momentum * _vector(state, "first", mean) + (1 - rule.momentum) * mean


def _second_moment(mean: checks.FloatVector, state: State, rule: ServerRule) -> checks.FloatVector:
    """Return the second moment before this round; it starts at τ², as published."""
    return state["second"] if "second" in state else np.full_like(mean, rule.tau**2)


def _scaled(
    first: checks.FloatVector, second: checks.FloatVector, rule: ServerRule
) -> tuple[checks.FloatVector, dict[str, checks.FloatVector]]:
    step = rule.learning_rate * first / (np.sqrt(np.maximum(second, 0.0)) + rule.tau)
    return step, {"first": first, "second": second}
