"""Errors survive the way from a worker process."""

from __future__ import annotations

import pickle

import pytest

from sensecrypt.errors import (
    InfeasibleSelection,
    InvalidInput,
    MaskMismatch,
    MissingExtra,
    Refused,
    Rejected,
    Unreachable,
    WorkerDied,
)


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("argument", "is wrong", "mend it"),
        MaskMismatch("mask", "is wrong", "mend it"),
        InfeasibleSelection(budget=1, needed_for_security=2, needed_for_mi=None, total=3),
        MissingExtra("feature", "extra"),
        Rejected("no", code="some-code"),
        Refused("some-code", "no", "mend it"),
        Unreachable("https://localhost", "no answer", "start it"),
        WorkerDied("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_after_pickling(error):
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
