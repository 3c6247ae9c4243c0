"""Bounds on updates, and start models that bounded updates cannot have made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sensecrypt.algo.clipping import AUTO_SHARE, check_start, clip_bound, clip_update
from sensecrypt.errors import InvalidInput

VECTORS = arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6))


@given(VECTORS, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_a_clipped_update_is_within_both_bounds(update, norm, largest):
    clipped, longer = clip_update(update, norm=norm, largest=largest)
    assert np.linalg.norm(clipped) <= norm * (1 + 1e-12)
    assert np.abs(clipped).max() <= largest
    assert longer == (np.sqrt(np.dot(update, update)) > norm)


def test_an_update_within_its_bounds_stays_as_it_is():
    update = np.array([3.0, -4.0])
    clipped, longer = clip_update(update, norm=5.0, largest=4.0)
    assert (clipped.tolist(), longer) == ([3.0, -4.0], False)


def test_clipping_keeps_the_direction():
    clipped, longer = clip_update([30.0, -40.0], norm=5.0, largest=100.0)
    assert longer
    assert clipped == pytest.approx([3.0, -4.0])


def test_the_bound_follows_from_the_initial_model():
    initial = np.full(400, 0.5, dtype=np.float32)
    assert clip_bound("auto", initial) == pytest.approx(AUTO_SHARE * 10)
    assert clip_bound("auto", np.zeros(4)) == AUTO_SHARE  # a model that starts at zero still moves
    assert clip_bound(2.5, initial) == 2.5


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bound_is_a_positive_number(clip):
    with pytest.raises(InvalidInput, match="clip"):
        clip_bound(clip, np.ones(3))


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ([np.nan, 0.0], "not finite"),
        ([np.inf, 0.0], "not finite"),
        ([0.0, 0.0, 0.0], "has shape"),
        ([2.1, 0.0], "from the model 2 round"),
    ],
    ids=["nan", "infinite", "shape", "far"],
)
def test_a_start_that_clipped_updates_cannot_have_made_is_refused(start, problem):
    with pytest.raises(InvalidInput, match=problem):
        check_start(start, [0.0, 0.0], norm=1.0, rounds=2)


def test_a_start_within_reach_is_taken():
    check_start([2.0, 0.0], [0.0, 0.0], norm=1.0, rounds=2)
    check_start([0.0, 0.0], [0.0, 0.0], norm=1.0, rounds=0)
