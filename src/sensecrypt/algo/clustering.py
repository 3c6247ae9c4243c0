"""Which clients train together (paper, "Privacy-preserving Clustering of Clients" and Appendix G).

Affinity Propagation (AP) on Euclidean distances, as in the paper, with three additions that its result needs:

* AP's number of clusters hangs on its *preference*. The customary median splits a large group when groups are of
  uneven size (15 + 5 clients: 3.6 clusters on average), so four quantiles of the similarities are tried and the
  split with the best mean silhouette is taken.
* AP always finds clusters, in noise too. Below `min_silhouette` there is no structure, and all clients are one
  cluster.
* A cluster of one has no secret from whoever sees its aggregate: clusters below `min_size` join the nearest one.
"""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.types import Clusters

Method = Literal["affinity-propagation", "k-means"]
Matrix = npt.NDArray[np.float64]

MIN_SILHOUETTE = 0.35
PREFERENCE_QUANTILES = (0.5, 0.25, 0.1, 0.0)
SAMPLE = 1000


def cluster_clients(
    vectors: npt.ArrayLike,
    *,
    random_state: int | np.random.Generator,
    min_size: int = 2,
    min_silhouette: float = MIN_SILHOUETTE,
    method: Method = "affinity-propagation",
    k: int | None = None,
) -> Clusters:
    """Group clients whose vectors (sketches, or sensitivities in the clear) are close.

    Args:
        vectors: one row a client.
        random_state: seed of AP's tie-breaking, of K-means, and of the sample below.
        min_size: smaller clusters join the nearest.
        min_silhouette: a split that scores less is no structure: one cluster.
        method: `affinity-propagation`, or `k-means` with `k` clusters, the comparison method of Appendix G.
        k: number of clusters for K-means; None: the one in 2 … 8 with the best silhouette.

    Beyond 1,000 clients AP, whose cost is quadratic, runs on a random sample of 1,000, and every client goes to its
    nearest exemplar; `why` says so. A group that holds less than about 1 % of the clients can then be missed.
    """
    rows = _check_rows(vectors)
    checks.whole("min_size", min_size, low=1)
    checks.number("min_silhouette", min_silhouette, low=-1.0, high=1.0)
    checks.choice("method", method, ("affinity-propagation", "k-means"))
    clients = len(rows)
    if k is not None:
        checks.whole("k", k, low=1, high=clients)
    if clients < 2 * min_size or clients < 3:
        return _one_cluster(rows, None, f"{clients} client(s) cannot make two clusters of at least {min_size}")
    if (rows == rows[0]).all():
        return _one_cluster(rows, None, "all clients are identical")

    rng = np.random.default_rng(random_state)
    sample = np.arange(clients) if clients <= SAMPLE else np.sort(rng.choice(clients, SAMPLE, replace=False))
    part = rows[sample]
    distances = _distances(part, part)
    seed = int(rng.integers(2**31))
    candidates = _k_means_splits(part, k, seed) if method == "k-means" else _affinity_splits(distances, seed)
    scored = [(_silhouette(distances, labels), labels) for labels in candidates]
    if not scored:
        return _one_cluster(rows, None, f"{method} found no split")
    silhouette, labels = max(scored, key=lambda pair: pair[0])  # of equals the first
    if silhouette < min_silhouette:
        why = f"no structure: the best split's silhouette {silhouette:.2f} is below {min_silhouette:.2f}"
        return _one_cluster(rows, silhouette, why)

    exemplars = sample[_medoids(distances, labels)]
    why = f"{method}: silhouette {silhouette:.2f}"
    if clients > SAMPLE:
        labels = _distances(rows, rows[exemplars]).argmin(axis=1)
        why += f" on a sample of {SAMPLE} clients, the others assigned to their nearest exemplar"
    return _finish(rows, exemplars, labels, silhouette, min_size, why)


def _check_rows(vectors: npt.ArrayLike) -> Matrix:
    try:
        rows = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput("vectors", "is not a matrix of real numbers", "pass rows of equal length") from error
    if rows.ndim != 2:
        raise InvalidInput("vectors", f"has shape {rows.shape}", "pass one row a client")
    checks.finite_vector("vectors", rows)
    return rows


def _distances(a: Matrix, b: Matrix) -> Matrix:
    from sklearn.metrics import pairwise_distances

    return np.asarray(pairwise_distances(a, b), dtype=np.float64)


def _affinity_splits(distances: Matrix, seed: int) -> list[checks.IntVector]:
    """The splits into two or more clusters that AP finds at each preference."""
    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    similarity = -(distances**2)
    pairs = similarity[~np.eye(len(similarity), dtype=bool)]
    splits = []
    for quantile in PREFERENCE_QUANTILES:
        model = AffinityPropagation(
            affinity="precomputed",
            preference=float(np.quantile(pairs, quantile)),
            damping=0.7,
            max_iter=500,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a run that did not converge gives labels of −1
            labels = np.asarray(model.fit(similarity).labels_, dtype=np.int64)
        if labels.min() >= 0 and labels.max() > 0:
            splits.append(labels)
    return splits


def _k_means_splits(rows: Matrix, k: int | None, seed: int) -> list[checks.IntVector]:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    splits = []
    for count in [k] if k is not None else range(2, min(8, len(rows) - 1) + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            labels = KMeans(n_clusters=count, n_init=10, random_state=seed).fit(rows).labels_
        if labels.max() > 0:
            splits.append(np.asarray(labels, dtype=np.int64))
    return splits


def _silhouette(distances: Matrix, labels: checks.IntVector) -> float:
    from sklearn.metrics import silhouette_score

    if labels.max() + 1 >= len(labels):  # every client on its own
        return -1.0
    return float(silhouette_score(distances, labels, metric="precomputed"))


def _medoids(distances: Matrix, labels: checks.IntVector) -> checks.IntVector:
    """For each cluster the member with the smallest sum of distances to the others."""
    medoids = []
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        medoids.append(members[distances[np.ix_(members, members)].sum(axis=1).argmin()])
    return np.array(medoids, dtype=np.int64)


def _finish(
    rows: Matrix, exemplars: checks.IntVector, labels: checks.IntVector, silhouette: float, min_size: int, why: str
) -> Clusters:
    """Merge clusters that are too small, smallest first, then number clusters by first appearance."""
    alive = list(range(exemplars.size))
    merged = 0
    while len(alive) > 1:
        sizes = [int((labels == cluster).sum()) for cluster in alive]
        smallest = alive[int(np.argmin(sizes))]
        if min(sizes) >= min_size:
            break
        alive.remove(smallest)
        gaps = _distances(rows[exemplars[[smallest]]], rows[exemplars[alive]])[0]
        labels = np.where(labels == smallest, alive[int(gaps.argmin())], labels)
        merged += 1
    if merged:
        why += f"; {merged} cluster(s) smaller than {min_size} joined the nearest"
    first_seen = sorted(alive, key=lambda cluster: int((labels == cluster).argmax()))
    renumbered = np.empty(len(labels), dtype=np.int64)
    for number, cluster in enumerate(first_seen):
        renumbered[labels == cluster] = number
    return Clusters(renumbered, exemplars[first_seen], silhouette, why)


def _one_cluster(rows: Matrix, silhouette: float | None, why: str) -> Clusters:
    """Everybody together; the exemplar is the client nearest to the mean."""
    nearest = int(_distances(rows, rows.mean(axis=0, keepdims=True)).argmin())
    return Clusters(np.zeros(len(rows), dtype=np.int64), np.array([nearest]), silhouette, why)
