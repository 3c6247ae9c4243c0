"""Clusters clients that train together (paper, "Privacy-preserving Clustering of Clients" and Appendix G).

Method `ap` is the paper's: Affinity Propagation (AP) on squared Euclidean distances. Method `auto` adds what
measurements showed to be necessary (`docs/decisions/0003-clustering.md`):

* AP's number of clusters depends on its *preference*, and the best preference depends on the number of clients: at the
  usual median, 1,000 clients in 4 groups give 10 to 14 clusters. So AP's clusters are merged bottom-up. The level with
  the best mean silhouette is chosen, or a coarser one that scores nearly as well and whose clusters are well separated.
* AP also finds clusters in noise. Below `min_silhouette` all clients form one cluster, unless all clusters are large
  and well separated: with few samples per client, noise in 256 dimensions lowers the silhouette of a clear split. If
  noise leaves AP nothing to merge, K-means searches for such clusters.
* The aggregate of one client is that client's model: clusters smaller than `min_size` join the nearest cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.merging import Matrix, join_small, least_separation, mean_silhouette, merge_levels
from sensecrypt.errors import InvalidInput
from sensecrypt.types import Clusters

Method = Literal["auto", "ap", "k-means"]

MIN_SILHOUETTE = 0.35
MIN_SEPARATION = 6.0  # standard deviations; measured: halves of a single group are up to 5.6 apart
SILHOUETTE_TOLERANCE = 0.1  # how much less than the best a coarser, well separated level may score
LARGE = 20  # members that every cluster needs for its separation to replace the silhouette
SAMPLE = 1000
MAX_K = 8
# Pairs (quantile of the similarities as preference, damping), tried until AP converges to more than one cluster.
_ATTEMPTS = (0.5, 0.7), (0.5, 0.9), (0.9, 0.7)
_ITERATIONS = 500
_PLAIN_DAMPING, _PLAIN_ITERATIONS = 0.5, 200  # scikit-learn's defaults


@dataclass(frozen=True, eq=False)
class _Split:
    """The best split of the sampled clients.

    Attributes:
        labels: the cluster of each client.
        silhouette: the mean silhouette of the split.
        apart: standard deviations between the nearest two clusters.
        pieces: the finer clusters that were merged into `labels`; equal to `labels` if nothing was merged. Clients
            outside the sample join the nearest piece.
        tried: a description of what was tried and what was best.
        given: whether the caller gave the number of clusters; then no minimum silhouette applies.
    """

    labels: checks.IntVector
    silhouette: float
    apart: float
    pieces: checks.IntVector
    tried: str
    given: bool = False


def cluster_clients(
    vectors: npt.ArrayLike,
    *,
    random_state: int | np.random.Generator,
    min_size: int = 2,
    min_silhouette: float = MIN_SILHOUETTE,
    method: Method = "auto",
    k: int | None = None,
) -> Clusters:
    """Return clusters of clients whose vectors (sketches, or sensitivities in the clear) are close.

    Args:
        vectors: one row per client.
        random_state: seed of AP's tie-breaking, of K-means, and of the sample below.
        min_size: smaller clusters join the nearest cluster; ignored by `ap`.
        min_silhouette: a split that scores less becomes one cluster, unless all its clusters have 20 members (of the
            sample below) and are 6 standard deviations apart; ignored by `ap` and with `k`.
        method: `auto`: AP, its clusters merged to the best silhouette; `ap`: AP alone with scikit-learn's defaults, as
            in the paper; `k-means`: the comparison method of Appendix G.
        k: number of clusters of K-means; None: the number in 2 … 8 with the best silhouette.

    The cost of AP is quadratic. Beyond 1,000 clients, `auto` and `k-means` cluster a random sample of 1,000, and every
    other client joins the nearest cluster; the result's `why` reports it. A group of less than about 1 % of the clients
    can then be missed. `ap` always takes all clients: 10,000 need gigabytes and minutes.
    """
    rows = _check_rows(vectors)
    checks.whole("min_size", min_size, low=1)
    checks.number("min_silhouette", min_silhouette, low=-1.0, high=1.0)
    checks.choice("method", method, get_args(Method))
    clients = len(rows)
    if k is not None:
        checks.whole("k", k, low=1, high=clients)
        if method != "k-means":
            raise InvalidInput("k", f"is {k}, but method {method} finds the number itself", "choose method k-means")
    rng = np.random.default_rng(random_state)
    if method == "ap":
        return _plain_affinity_propagation(rows, _draw_seed(rng))
    if clients < 2 * min_size or clients < 3:
        return _one_cluster(rows, None, f"{clients} client(s) are too few for two clusters of at least {min_size}")
    if (rows == rows[0]).all():
        return _one_cluster(rows, None, "all clients are identical")

    sample = np.arange(clients) if clients <= SAMPLE else np.sort(rng.choice(clients, SAMPLE, replace=False))
    distances = _distances(rows[sample], rows[sample])
    seed = _draw_seed(rng)
    split = (
        _k_means(rows[sample], distances, k, min_size, seed)
        if method == "k-means"
        else _merged_affinity_propagation(rows[sample], distances, min_size, min_silhouette, seed)
    )
    why = split.tried + (f", on a sample of {SAMPLE:,} of {clients:,} clients" if clients > SAMPLE else "")
    if split.labels.max() == 0:
        return _one_cluster(rows, None, why)
    if split.silhouette < min_silhouette and not _is_separate(split.apart, split.labels) and not split.given:
        return _one_cluster(rows, split.silhouette, f"no structure, silhouette below {min_silhouette:.2f}: {why}")
    labels = _extend(rows, sample, split)
    return _clusters(sample[_medoids(distances, split.labels)], labels, split.silhouette, why)


def _check_rows(vectors: npt.ArrayLike) -> Matrix:
    try:
        rows = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput("vectors", "is not a matrix of real numbers", "pass rows of equal length") from error
    if rows.ndim != 2:
        raise InvalidInput("vectors", f"has shape {rows.shape}", "pass one row per client")
    checks.finite_vector("vectors", rows)
    return rows


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _distances(a: Matrix, b: Matrix) -> Matrix:
    from sklearn.metrics import pairwise_distances

    return np.asarray(pairwise_distances(a, b), dtype=np.float64)


def _plain_affinity_propagation(rows: Matrix, seed: int) -> Clusters:
    """Return the clusters of AP at the median preference; if AP does not converge, those of its last iteration."""
    distances = _distances(rows, rows)
    labels, converged = _affinity_propagation(
        distances, float(np.median(-(distances**2))), _PLAIN_DAMPING, _PLAIN_ITERATIONS, seed
    )
    failed = f"affinity propagation did not converge in {_PLAIN_ITERATIONS} iterations"
    if labels is None:
        return _one_cluster(rows, None, f"{failed} and found no exemplars: one cluster")
    silhouette = mean_silhouette(distances, labels) if 0 < labels.max() < len(rows) - 1 else None
    why = "affinity propagation at the median preference" if converged else f"{failed}: clusters of the last one"
    why += "" if silhouette is None else f", silhouette {silhouette:.2f}"
    return _clusters(_medoids(distances, labels), labels, silhouette, why)


def _merged_affinity_propagation(
    rows: Matrix, distances: Matrix, min_size: int, min_silhouette: float, seed: int
) -> _Split:
    """Return AP's clusters at the median preference, merged to the best level by silhouette and separation."""
    similarities = -(distances[~np.eye(len(distances), dtype=bool)] ** 2)
    for quantile, damping in _ATTEMPTS:
        preference = float(np.quantile(similarities, quantile))
        found, converged = _affinity_propagation(distances, preference, damping, _ITERATIONS, seed)
        if converged and found is not None and found.max() > 0:
            break
    note = "" if converged else f", which did not converge in {_ITERATIONS} iterations,"
    if found is None:
        one = np.zeros(len(distances), dtype=np.int64)
        return _Split(one, -1.0, 0.0, one, f"affinity propagation{note} found no exemplars")
    pieces = join_small(distances, found, min_size)
    levels = list(merge_levels(distances, pieces))
    tried = f"affinity propagation{note} found {found.max() + 1} clusters"
    if pieces.max() < found.max():
        tried += f", {found.max() - pieces.max()} of them with fewer than {min_size} clients joined the nearest"
    if not levels:
        return _Split(pieces, -1.0, 0.0, pieces, f"{tried}: one cluster")
    best, finest = max(reversed(levels), key=lambda level: level[0])  # ties: the fewest clusters
    tried += f"; merged down to 2, the best silhouette is {best:.2f} at {finest.max() + 1} clusters"
    for silhouette, labels in levels:
        if labels.max() > finest.max() or silhouette < best - SILHOUETTE_TOLERANCE:
            continue
        apart = least_separation(rows, labels)
        enough = silhouette >= min_silhouette or np.bincount(labels).min() >= LARGE
        if MIN_SEPARATION <= apart < np.inf and enough:
            tried += f"; {labels.max() + 1} clusters are at least {apart:.1f} standard deviations apart"
            return _Split(labels, silhouette, apart, pieces, tried)
        if apart == np.inf and labels.max() == finest.max():
            break  # the clusters are too small to measure a separation
    if best < min_silhouette and len(rows) >= 2 * LARGE:
        for labels in reversed(_k_means_labels(rows, range(2, MAX_K + 1), seed)):
            apart = least_separation(rows, labels)
            if _is_separate(apart, labels):
                tried += f"; {labels.max() + 1} clusters of k-means are at least {apart:.1f} standard deviations apart"
                return _Split(labels, mean_silhouette(distances, labels), apart, labels, tried)
        tried += f"; k-means found no 2 to {MAX_K} clusters that are {MIN_SEPARATION:g} standard deviations apart"
    return _Split(finest, best, 0.0, pieces, tried)


def _is_separate(apart: float, labels: checks.IntVector) -> bool:
    """Return whether all clusters are large and well separated, so that no minimum silhouette applies."""
    return apart >= MIN_SEPARATION and bool(np.bincount(labels).min() >= LARGE)


def _affinity_propagation(
    distances: Matrix, preference: float, damping: float, iterations: int, seed: int
) -> tuple[checks.IntVector | None, bool]:
    """Return the labels (None if AP found no exemplars) and whether AP converged."""
    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    model = AffinityPropagation(
        affinity="precomputed", preference=preference, damping=damping, max_iter=iterations, random_state=seed
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # also catches "arbitrary cluster centers" for one or two clients
        labels = np.asarray(model.fit(-(distances**2)).labels_, dtype=np.int64)
    converged = not any(issubclass(each.category, ConvergenceWarning) for each in caught)
    return (labels if labels.min() >= 0 else None), converged


def _k_means(rows: Matrix, distances: Matrix, k: int | None, min_size: int, seed: int) -> _Split:
    """Return the split of K-means with k clusters, or with the number of clusters that has the best silhouette."""
    counts = [k] if k is not None else list(range(2, min(MAX_K, len(rows) - 1) + 1))
    joined = [join_small(distances, found, min_size) for found in _k_means_labels(rows, counts, seed)]
    splits = [(mean_silhouette(distances, labels), labels) for labels in joined]
    silhouette, labels = max(splits, key=lambda split: split[0])  # ties: the fewest clusters
    asked = f"k = {k}" if k is not None else f"k = {counts[0]} … {counts[-1]}"
    tried = f"k-means with {asked}: {labels.max() + 1} clusters, silhouette {silhouette:.2f}"
    if k is not None and labels.max() + 1 < k:
        tried += f"; {k - labels.max() - 1} with fewer than {min_size} clients joined the nearest"
    return _Split(labels, silhouette, least_separation(rows, labels), labels, tried, given=k is not None)


def _k_means_labels(rows: Matrix, counts: Sequence[int], seed: int) -> list[checks.IntVector]:
    """Return the labels that K-means finds for each number of clusters, numbered from 0 without gaps."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        found = [KMeans(n_clusters=count, n_init=10, random_state=seed).fit(rows).labels_ for count in counts]
    return [np.unique(labels, return_inverse=True)[1].astype(np.int64) for labels in found]


def _extend(rows: Matrix, sample: checks.IntVector, split: _Split) -> checks.IntVector:
    """Return labels for all clients: those outside the sample join the cluster of the piece with the nearest mean.

    Pieces are compared, not clusters: the border of a wide cluster can be nearer to another cluster's mean.
    """
    pieces = [np.flatnonzero(split.pieces == piece) for piece in range(split.pieces.max() + 1)]
    means = np.array([rows[sample[members]].mean(axis=0) for members in pieces])
    owners = split.labels[[members[0] for members in pieces]]
    labels: checks.IntVector = owners[_distances(rows, means).argmin(axis=1)]
    labels[sample] = split.labels
    return labels


def _medoids(distances: Matrix, labels: checks.IntVector) -> checks.IntVector:
    """Return for each cluster the member with the smallest sum of distances to the others."""
    medoids = []
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        medoids.append(members[distances[np.ix_(members, members)].sum(axis=1).argmin()])
    return np.array(medoids, dtype=np.int64)


def _clusters(exemplars: checks.IntVector, labels: checks.IntVector, silhouette: float | None, why: str) -> Clusters:
    """Return the result, with clusters numbered by first appearance."""
    first_seen = np.argsort([int((labels == cluster).argmax()) for cluster in range(exemplars.size)])
    return Clusters(np.argsort(first_seen)[labels], exemplars[first_seen], silhouette, why)


def _one_cluster(rows: Matrix, silhouette: float | None, why: str) -> Clusters:
    """Return one cluster of all clients; the exemplar is the client nearest to the mean."""
    nearest = int(_distances(rows, rows.mean(axis=0, keepdims=True)).argmin())
    return Clusters(np.zeros(len(rows), dtype=np.int64), np.array([nearest]), silhouette, why)
