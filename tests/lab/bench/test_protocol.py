from __future__ import annotations

import json

import pytest

from tests.cli.test_app import sensecrypt


@pytest.mark.slow
def test_every_step_of_a_round_is_timed_and_the_table_shows_it():
    report = json.loads(sensecrypt("bench", "protocol", "--repeats", "1", "--json"))
    steps = {step["name"]: step for step in report["steps"]}
    assert list(steps) == [
        *("training", "sensitivity", "selection", "encryption"),
        *("aggregation, 20 uploads", "decryption, verification"),
    ]
    assert all(step["seconds"] > 0 for step in steps.values())
    assert [each["clients"] for each in report["memory"]] == [20, 400]
