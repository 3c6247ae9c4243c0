from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import pairwise_distances, silhouette_score

from sensecrypt.algo.merging import join_small, least_separation, mean_silhouette, merge_levels

POINTS = arrays.arrays(np.float64, (12, 3), elements=st.floats(-9, 9).map(lambda number: round(number, 3)))
LABELS = st.lists(st.integers(0, 4), min_size=12, max_size=12).map(
    lambda chosen: np.unique(chosen, return_inverse=True)[1]
)


@given(points=POINTS, labels=LABELS)
def test_the_silhouette_is_scikit_learns(points, labels):
    distances = pairwise_distances(points)
    if labels.max() == 0:
        assert mean_silhouette(distances, labels) == -1.0
    else:
        reference = silhouette_score(distances, labels, metric="precomputed")
        assert mean_silhouette(distances, labels) == pytest.approx(reference, abs=1e-9)


@given(points=POINTS, labels=LABELS)
def test_every_level_is_scored_and_has_one_cluster_less(points, labels):
    distances = pairwise_distances(points)
    counts = []
    for silhouette, level in merge_levels(distances, labels):
        counts.append(int(level.max()) + 1)
        assert silhouette == pytest.approx(mean_silhouette(distances, level), abs=1e-9)
        assert all(len(set(level[labels == cluster])) == 1 for cluster in range(labels.max() + 1))
    assert counts == list(range(labels.max() + 1, 1, -1))


def test_levels_are_those_of_average_linkage():
    points = np.random.default_rng(0).standard_normal((40, 5))
    levels = {int(level.max()) + 1: level for _, level in merge_levels(pairwise_distances(points), np.arange(40))}
    for count in (2, 5, 20):
        theirs = AgglomerativeClustering(count, linkage="average").fit(points).labels_
        assert len(set(zip(theirs, levels[count], strict=True))) == count


@given(points=POINTS, labels=LABELS, min_size=st.integers(1, 12))
def test_no_cluster_stays_small(points, labels, min_size):
    joined = join_small(pairwise_distances(points), labels, min_size)
    sizes = np.bincount(joined)
    assert sizes.min() >= min_size or sizes.size == 1
    if np.bincount(labels).min() >= min_size:
        assert joined.tolist() == labels.tolist()


def test_small_clusters_join_the_nearest():
    points = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])
    assert join_small(pairwise_distances(points), np.array([0, 0, 0, 1, 2, 2, 2]), 2).tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_separation_counts_the_line_between_means_alone():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 300)
    rows = rng.standard_normal((600, 256))
    rows[:, 0] += 10.0 * labels
    assert 8.0 < least_separation(rows, labels) < 10.5
    distances = pairwise_distances(rows)
    assert mean_silhouette(distances, labels) < 0.15


def test_a_group_that_was_cut_is_not_separate_and_noise_does_not_separate():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((600, 256))
    rows[:, 0] *= 20
    assert 2.2 < least_separation(rows, (rows[:, 0] > 0).astype(np.int64)) < 3.0
    assert least_separation(rng.standard_normal((60, 256)), np.repeat([0, 1], 30)) < 2.0


def test_clusters_too_small_to_halve_are_not_judged():
    rows = np.random.default_rng(0).standard_normal((30, 4))
    assert least_separation(rows, np.repeat([0, 1], [25, 5])) == np.inf
    assert least_separation(rows, np.repeat([0, 1, 2], [12, 13, 5])) < 6
    assert least_separation(np.repeat(np.eye(2), 10, axis=0), np.repeat([0, 1], 10)) == np.inf
