"""A client starts from a model with the same data in one run only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sensecrypt.client.data import as_data
from sensecrypt.client.replayguard import REPLAYED, ReplayGuard
from sensecrypt.errors import Rejected

DATA = (torch.arange(24.0).reshape(6, 4), torch.arange(6))
START = np.ones(8, dtype=np.float32)


@pytest.fixture
def guard(tmp_path):
    """The guard of a run."""
    return lambda run, data=DATA: ReplayGuard(tmp_path, run, as_data(data))


def test_one_run_starts_as_often_as_its_attempts_need(guard):
    guard("a").claim(START)
    guard("a").claim(START)
    guard("a").require_unused(START)


def test_a_second_run_does_not(guard):
    guard("a").claim(START)
    for start in (guard("b").claim, guard("b").require_unused):
        with pytest.raises(Rejected, match="has started from this model with the same data in run a; resume") as told:
            start(START)
        assert told.value.code == REPLAYED
    guard("b").claim(START * 2)


def test_looking_notes_nothing(guard):
    guard("a").require_unused(START)
    guard("b").claim(START)


def test_it_is_kept_over_processes_and_the_order_of_samples_does_not_matter(guard):
    guard("a").claim(START)
    turned = torch.tensor([3, 1, 0, 2, 5, 4])
    with pytest.raises(Rejected):
        guard("b", (DATA[0][turned], DATA[1][turned])).claim(START)
    guard("b", (DATA[0][turned], DATA[1])).claim(START)  # other labels: other data


def test_a_damaged_note_allows_nothing(guard, tmp_path):
    guard("a").claim(START)
    [note] = (tmp_path / "starts").iterdir()
    note.write_text("")
    with pytest.raises(Rejected, match="another run, whose name is damaged"):
        guard("a").claim(START)
