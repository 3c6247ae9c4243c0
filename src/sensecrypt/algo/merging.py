"""Bottom-up merging of clusters, the nearest two first; each level has a mean silhouette (Rousseeuw 1987).

The distance of two clusters is the mean distance of their members (average linkage). It does not depend on the
clusters' sizes, so that small groups count as much as large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sensecrypt.checks import IntVector

Matrix = npt.NDArray[np.float64]
LEAST_TO_JUDGE = 8  # the separation of clusters with fewer members is not meaningful


def join_small(distances: Matrix, labels: IntVector, min_size: int) -> IntVector:
    """Return labels after clusters of fewer than `min_size` members joined the nearest cluster, the smallest first.

    Args:
        distances: the distance of every pair of members.
        labels: the cluster of each member, numbered from 0 without gaps.
        min_size: the minimum size of every cluster in the result, unless there is only one.
    """
    pairs = _sum_by_cluster(_sum_by_cluster(distances, labels).T, labels)
    while len(pairs) > 1:
        sizes = np.bincount(labels)
        smallest = int(sizes.argmin())
        if sizes[smallest] >= min_size:
            break
        keep, drop = sorted((smallest, int(_mean_distances(pairs, sizes)[smallest].argmin())))
        labels, pairs = _join_labels(labels, keep, drop), _join_columns(_join_columns(pairs, keep, drop).T, keep, drop)
    return labels


def merge_levels(distances: Matrix, labels: IntVector) -> Iterator[tuple[float, IntVector]]:
    """Yield mean silhouette and labels of the given clusters and after each merge of the nearest two, down to two.

    Merging adds sums of distances: a level costs members × clusters, not members².
    """
    sums = _sum_by_cluster(distances, labels)
    pairs = _sum_by_cluster(sums.T, labels)
    while len(pairs) > 1:
        yield _silhouette(sums, labels), labels
        between = _mean_distances(pairs, np.bincount(labels))
        keep, drop = sorted(divmod(int(between.argmin()), len(between)))
        labels, sums = _join_labels(labels, keep, drop), _join_columns(sums, keep, drop)
        pairs = _join_columns(_join_columns(pairs, keep, drop).T, keep, drop)


def mean_silhouette(distances: Matrix, labels: IntVector) -> float:
    """Return the mean over all members of (b − a) / max(a, b); −1 if undefined: one cluster, or one per member.

    a is a member's mean distance to the others of its cluster, b that to the members of the nearest other cluster. The
    only member of a cluster counts as 0.
    """
    return _silhouette(_sum_by_cluster(distances, labels), labels)


def least_separation(rows: Matrix, labels: IntVector) -> float:
    """Return the distance of the nearest two clusters of at least 8 members, in standard deviations.

    It is infinite if there are no two such clusters. The members of two clusters are projected on the line between the
    clusters' means, so that noise in all other directions, which lowers silhouettes, does not count. Half of the
    members define the line and the other half is projected, and vice versa: otherwise noise would separate any two
    clusters. The halves of a normal distribution are 2.6 apart, those of a uniform one 3.5.
    """
    members = [rows[labels == cluster] for cluster, size in enumerate(np.bincount(labels)) if size >= LEAST_TO_JUDGE]
    return min((_separation(first, second) for first, second in combinations(members, 2)), default=np.inf)


def _separation(first: Matrix, second: Matrix) -> float:
    apart = []
    for half in (0, 1):
        line = first[half::2].mean(axis=0) - second[half::2].mean(axis=0)
        a, b = first[1 - half :: 2] @ line, second[1 - half :: 2] @ line
        spread = np.sqrt((a.var() + b.var()) / 2)
        apart.append((a.mean() - b.mean()) / spread if spread > 0 else np.inf)
    return float(np.mean(apart))


def _silhouette(sums: Matrix, labels: IntVector) -> float:
    members, sizes = np.arange(labels.size), np.bincount(labels)
    if not 1 < sizes.size < labels.size:
        return -1.0
    inside = sums[members, labels] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[members, labels] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    scores = np.divide(outside - inside, larger, out=np.zeros(labels.size), where=larger > 0)
    return float(scores[sizes[labels] > 1].sum() / labels.size)


def _mean_distances(pairs: Matrix, sizes: IntVector) -> Matrix:
    """Return the mean distance of the members of every two clusters; infinite from a cluster to itself."""
    between = pairs / np.outer(sizes, sizes)
    np.fill_diagonal(between, np.inf)
    return between


def _sum_by_cluster(values: Matrix, labels: IntVector) -> Matrix:
    """Return the sum of each row's values over the columns of each cluster."""
    columns = np.argsort(labels, kind="stable")
    return np.add.reduceat(values[:, columns], np.searchsorted(labels[columns], np.arange(labels.max() + 1)), axis=1)


def _join_columns(sums: Matrix, keep: int, drop: int) -> Matrix:
    joined = np.delete(sums, drop, axis=1)
    joined[:, keep] += sums[:, drop]
    return joined


def _join_labels(labels: IntVector, keep: int, drop: int) -> IntVector:
    """Return labels with cluster `drop` joined to `keep`, the smaller number, and numbered without gaps."""
    labels = np.where(labels == drop, keep, labels)
    return np.where(labels > drop, labels - 1, labels)
