from __future__ import annotations

import pytest

from sensecrypt.algo.selection import select
from sensecrypt.policies import get_policy, sensecrypt
from tests.policies.situations import situation


def chosen(**changes):
    client = situation(**{"max_mi": 3.0, "objective": "balance", "C": 1.0, "B": 0.0, "budget": 1.0, **changes})
    return get_policy("sensecrypt").choose(client)


def test_the_weights_of_the_objective_count():
    dear, cheap = chosen(beta=(4.0, 1.0)), chosen(beta=(1.0, 4.0))
    assert dear.mask.share < chosen().mask.share < cheap.mask.share


def test_the_bins_of_the_mutual_information_count():
    few, many = chosen(bins=5, max_mi=9.0), chosen(bins=200, max_mi=9.0)
    assert few.mi < chosen(max_mi=9.0).mi < many.mi


@pytest.mark.parametrize("normalise", ["all", "budget", "feasible"])
def test_the_reading_of_the_normalisation_is_passed_on(monkeypatch, normalise):
    told = {}

    def watch(*arguments, **keywords):
        told.update(keywords)
        return select(*arguments, **keywords)

    monkeypatch.setattr(sensecrypt, "select", watch)
    chosen(normalise=normalise)
    assert told["normalise"] == normalise
