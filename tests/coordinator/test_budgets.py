from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.coordinator.budgets import Budgets, measured_bandwidths
from sensecrypt.errors import SenseCryptError
from sensecrypt.records import ClientRecord, ServerRecord

PAPER = {"clients": 4, "budget": "paper", "min_contributors": 1, "cpus": "8", "bandwidths": "10"}
ONE = np.zeros(4, dtype=np.int64)


def budgets(measured=None, labels=ONE, **settings):
    return Budgets(make_config({**PAPER, **settings}), labels, 1000, measured).of_round(0).tolist()


def test_the_clock_of_a_processor_counts():
    assert budgets(ghz="1,2,4,2") == [0.25, 0.5, 1.0, 0.5]


def test_bandwidths_are_declared_or_measured():
    measured = {0: 1.0, 1: 2.0, 2: 4.0, 3: 3.0}
    assert budgets(measured, bandwidths="40,20,10,30") == [1.0, 0.5, 0.25, 0.75]
    assert budgets(measured, bandwidths="40,20,10,30", bandwidth="measured") == [0.25, 0.5, 1.0, 0.75]


def test_who_did_not_answer_counts_as_the_slowest_of_its_cluster():
    labels = np.array([0, 0, 0, -1])
    assert budgets({0: 1.0, 1: 4.0}, labels, bandwidth="measured")[:3] == [0.25, 1.0, 0.25]
    with pytest.raises(SenseCryptError, match="cluster 1; set bandwidth=declared"):
        budgets({0: 1.0, 1: 4.0}, np.array([0, 0, 1, 1]), bandwidth="measured")


def test_a_method_without_budgets_needs_no_measurement():
    assert budgets({}, policy="full", bandwidth="measured") == [1.0] * 4


def test_measurements_are_those_before_the_first_round():
    records = [
        ClientRecord(round=-1, cluster=0, client=2, measured_bandwidth=3.0),
        ClientRecord(round=-1, cluster=0, client=1),
        ClientRecord(round=0, cluster=0, client=0, measured_bandwidth=9.0),
        ServerRecord(round=-1, cluster=0),
    ]
    assert measured_bandwidths(records) == {2: 3.0}


def test_training_for_clustering_foretells_that_of_a_round():
    """Whoever trained slowly before the first round has less time left for encryption in it."""

    def after(*training):
        made = Budgets(
            make_config(
                {
                    **PAPER,
                    "profile": "paillier-2048",
                    "clients": 2,
                    "budget": "deadline",
                    "grace": 0,
                    "slack": 0,
                    "cpus": "1",
                }
            ),
            ONE[:2],
            6_300,
        )
        setup = {"round": -1, "pass_seconds": 1.0, "order_blocks": 1, "order_encrypt_seconds": 0.1, "bytes_up": 1}
        made.learn([ClientRecord(**setup, cluster=0, client=client, **each) for client, each in enumerate(training)])
        return made.of_round(0)

    fast, slow = after({"train_seconds": 2.0}, {"train_seconds": 9.0})
    assert fast > slow
    untrained = after({}, {})
    assert untrained[0] == untrained[1]
