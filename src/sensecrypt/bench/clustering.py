"""`sensecrypt bench clustering`: our clustering against scikit-learn's plain methods on the same sketches."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import AffinityPropagation, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sensecrypt import checks
from sensecrypt.algo.clustering import Matrix, cluster_clients
from sensecrypt.algo.sketching import sketch
from sensecrypt.bench.measure import in_own_process, median_seconds

GROUPS, SKETCH_SIZE, NOISE = 6, 256, 0.3
PLAIN_AP_LIMIT = 2_000
ALEXNET = 124_534


@dataclass(frozen=True)
class Row:
    """One method on one number of clients."""

    clients: int
    method: str
    seconds: float
    peak_mb: float
    clusters: int
    ari: float


@dataclass(frozen=True)
class Report:
    """The rows, and what making one sketch costs."""

    sketch_seconds: float
    sketch_parameters: int
    rows: list[Row]


def run(sizes: Sequence[int], *, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Time a sketch, then every method at every size, each in its own process."""
    vector = np.abs(np.random.default_rng(seed).standard_normal(ALEXNET))
    sketching = median_seconds(lambda: sketch(vector, seed=bytes(16)), repeats=repeats)
    rows = []
    for clients in sizes:
        for method in ("sensecrypt", "k-means (scikit-learn, true k)", "affinity propagation (scikit-learn)"):
            if method.startswith("affinity") and clients > PLAIN_AP_LIMIT:
                continue  # minutes and gigabytes
            on_step(f"{method}, {clients:,} clients")
            cost = in_own_process(_cluster_once, method, clients, seed)
            rows.append(Row(clients, method, cost.seconds, cost.peak_mb, *cost.result))
    return Report(sketching, ALEXNET, rows)


def groups(clients: int, seed: int) -> tuple[Matrix, checks.IntVector]:
    """Unit-length sketches of clients in equal groups, each client off its group's centre by `NOISE`."""
    rng = np.random.default_rng(seed)
    truth = np.arange(clients) % GROUPS
    centres = rng.standard_normal((GROUPS, SKETCH_SIZE))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rows = centres[truth] + NOISE * rng.standard_normal((clients, SKETCH_SIZE)) / np.sqrt(SKETCH_SIZE)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), truth


def _cluster_once(method: str, clients: int, seed: int) -> tuple[float, tuple[int, float]]:
    rows, truth = groups(clients, seed)
    start = time.perf_counter()
    if method == "sensecrypt":
        labels = cluster_clients(rows, random_state=seed).labels
    elif method.startswith("k-means"):
        labels = KMeans(n_clusters=GROUPS, n_init=10, random_state=seed).fit(rows).labels_
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = AffinityPropagation(random_state=seed).fit(rows).labels_
    seconds = time.perf_counter() - start
    return seconds, (len(np.unique(labels)), float(adjusted_rand_score(truth, labels)))
