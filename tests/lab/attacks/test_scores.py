from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.scores import score_labels, top_one, total_variation, with_interval


def test_the_published_measures_on_a_case_counted_by_hand():
    scores = score_labels([2.4, 0.2, -1.0, 7.6], [2, 1, 0, 5])  # counts 2, 0, 0, 8
    assert scores.leacc == 0.75  # class 1 was missed
    assert scores.lnacc == 0.5  # classes 0 and 2
    assert scores.irec == (2 + 0 + 0 + 5) / 8
    assert scores.top1 == 1.0


def test_a_perfect_guess():
    scores = score_labels([3, 0, 1], [3, 0, 1])
    assert (scores.leacc, scores.lnacc, scores.irec, scores.distance, scores.top1) == (1, 1, 1, 0, 1)


def test_guessing_that_nothing_is_there_scores_high_with_many_classes():
    truth = np.bincount(np.arange(24), minlength=100)
    assert score_labels(np.full(100, 24 / 100), truth).leacc == pytest.approx(0.76)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=8).filter(any), st.integers(1, 5))
def test_total_variation_is_a_distance_of_shapes(histogram, factor):
    other = histogram[::-1]
    assert total_variation(histogram, np.multiply(histogram, factor)) == pytest.approx(0)
    assert total_variation(histogram, other) == pytest.approx(total_variation(other, histogram))
    assert 0 <= total_variation(histogram, other) <= 1 + 1e-12


def test_disjoint_histograms_are_at_distance_one():
    assert total_variation([1, 0], [0, 7]) == 1.0


def test_several_first_guesses_share_the_credit():
    assert top_one([1, 1, 1, 1], [0, 3, 0, 3]) == 0.5


def test_interval_is_students():
    values = [0.1, 0.4, 0.3, 0.8, 0.2]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    found = with_interval(values)
    assert found.mean - found.half == pytest.approx(low)
    assert found.mean + found.half == pytest.approx(high)
    assert np.isnan(with_interval([0.5]).half)
    with pytest.raises(InvalidInput, match="one number per seed"):
        with_interval([])
