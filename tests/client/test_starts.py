"""A client starts from a model with the same data in one run only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sensecrypt.client.data import as_data
from sensecrypt.client.starts import REPLAYED, Starts
from sensecrypt.errors import Rejected

DATA = (torch.arange(24.0).reshape(6, 4), torch.arange(6))
START = np.ones(8, dtype=np.float32)


@pytest.fixture
def starts(tmp_path):
    return Starts(tmp_path, as_data(DATA))


def test_one_run_starts_as_often_as_its_attempts_need(starts):
    starts.claim(START, "a")
    starts.claim(START, "a")
    starts.require_unused(START, "a")


def test_a_second_run_does_not(starts):
    starts.claim(START, "a")
    for start in (starts.claim, starts.require_unused):
        with pytest.raises(Rejected, match="has started from this model with the same data in run a; resume") as told:
            start(START, "b")
        assert told.value.code == REPLAYED
    starts.claim(START * 2, "b")


def test_looking_notes_nothing(starts):
    starts.require_unused(START, "a")
    starts.claim(START, "b")


def test_it_is_kept_over_processes_and_the_order_of_samples_does_not_matter(starts, tmp_path):
    starts.claim(START, "a")
    turned = torch.tensor([3, 1, 0, 2, 5, 4])
    with pytest.raises(Rejected):
        Starts(tmp_path, as_data((DATA[0][turned], DATA[1][turned]))).claim(START, "b")
    Starts(tmp_path, as_data((DATA[0][turned], DATA[1]))).claim(START, "b")  # other labels: other data


def test_a_damaged_note_allows_nothing(starts, tmp_path):
    starts.claim(START, "a")
    [note] = (tmp_path / "starts").iterdir()
    note.write_text("")
    with pytest.raises(Rejected, match="another run, whose name is damaged"):
        starts.claim(START, "a")
