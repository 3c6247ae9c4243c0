"""`sensecrypt bench clustering`: our clustering against scikit-learn's plain methods on the same sketches."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import AffinityPropagation, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sensecrypt import checks
from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.algo.merging import Matrix
from sensecrypt.algo.sketching import sketch
from sensecrypt.lab.bench.measure import in_own_process, median_seconds
from sensecrypt.lab.bench.table import Report, Row, Shown, described

GROUPS, SKETCH_SIZE, NOISE = 6, 256, 0.3
PLAIN_AP_LIMIT = 2_000
ALEXNET = 124_534
OURS, K_MEANS, PLAIN_AP = "sensecrypt", "k-means (scikit-learn, true k)", "affinity propagation (scikit-learn)"


@dataclass(frozen=True)
class RealData:
    """A data set, split over clients, whose sketches are clustered."""

    dataset: str
    partition: str
    model: str = ""


def run(
    sizes: Sequence[int],
    *,
    repeats: int,
    seed: int,
    on_step: Callable[[str], None],
    real: RealData | None = None,
) -> Report:
    """Time a sketch, then every method at every number of clients, each in its own process.

    Sketches are of `real` data, else of synthetic groups. `repeats` are those of the sketch.
    """
    vector = np.abs(np.random.default_rng(seed).standard_normal(ALEXNET))
    sketching = median_seconds(lambda: sketch(vector, seed=bytes(16)), repeats=repeats)
    rows: list[Row] = []
    for clients in sizes:
        on_step(f"sketches of {clients:,} clients")
        sketches, truth = groups(clients, seed) if real is None else _real(real, clients, seed)
        rows += _compare(sketches, truth, seed, on_step)
    data = f"{GROUPS} synthetic groups" if real is None else f"{real.dataset}, {real.partition}"
    return {"data": data, "sketch_seconds": sketching, "sketch_parameters": ALEXNET, "rows": rows}


def shown(report: Report) -> Iterator[Shown]:
    """The table, and the reason for the number of clusters of our method."""
    yield described(
        "Clustering sketches of {size} numbers, {data} (one sketch of {sketch_parameters:,} parameters: {ms:.1f} "
        "ms)".format(**report, size=SKETCH_SIZE, ms=1e3 * report["sketch_seconds"]),
        [
            ("clients", "clients:,"),
            ("method", "method"),
            ("seconds", "seconds:.2f"),
            ("÷ ours", "ratio:.2f"),
            ("peak MB", "peak_mb:,.0f"),
            ("clusters", "clusters"),
            ("ARI", "ari:.3f"),
        ],
        report["rows"],
    )
    yield from (f"{row['clients']:,} clients: {row['why']}" for row in report["rows"] if row["why"])


def groups(clients: int, seed: int) -> tuple[Matrix, checks.IntVector]:
    """Unit-length sketches of clients in equal groups, each client at distance `NOISE` from its group's centre."""
    rng = np.random.default_rng(seed)
    truth = np.arange(clients) % GROUPS
    centres = rng.standard_normal((GROUPS, SKETCH_SIZE))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rows = centres[truth] + NOISE * rng.standard_normal((clients, SKETCH_SIZE)) / np.sqrt(SKETCH_SIZE)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), truth


def _real(real: RealData, clients: int, seed: int) -> tuple[Matrix, checks.IntVector | None]:
    from sensecrypt.lab.bench.realsketches import real_sketches, true_clusters  # loads PyTorch: only where it is needed

    sketches = real_sketches(real.dataset, clients, real.partition, seed=seed, model=real.model)
    return sketches, true_clusters(clients, real.partition)


def _compare(
    sketches: Matrix, truth: checks.IntVector | None, seed: int, on_step: Callable[[str], None]
) -> Iterator[Row]:
    clients, ours = len(sketches), 0.0
    for method in (OURS, K_MEANS, PLAIN_AP):
        if method == PLAIN_AP and clients > PLAIN_AP_LIMIT:
            continue  # minutes and gigabytes
        if method == K_MEANS and (truth is None or truth.max() == 0):
            continue  # there is no true k
        on_step(f"{method}, {clients:,} clients")
        cost = in_own_process(_cluster_once, method, sketches, truth, seed)
        ours = cost.seconds if method == OURS else ours
        times: Row = {"seconds": cost.seconds, "ratio": cost.seconds / ours, "peak_mb": cost.peak_mb}
        yield {"clients": clients, "method": method, **times, **cost.result}


def _cluster_once(method: str, sketches: Matrix, truth: checks.IntVector | None, seed: int) -> tuple[float, Row]:
    """Seconds and result of one method: the ARI to the true groups, and `why` our method chose its clusters."""
    why, start = "", time.perf_counter()
    if method == OURS:
        found = cluster_clients(sketches, random_state=seed)
        labels, why = found.labels, found.why
    elif method == K_MEANS and truth is not None:
        labels = KMeans(n_clusters=int(truth.max()) + 1, n_init=10, random_state=seed).fit(sketches).labels_
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = AffinityPropagation(random_state=seed).fit(sketches).labels_
    seconds = time.perf_counter() - start
    ari = None if truth is None else float(adjusted_rand_score(truth, labels))
    return seconds, {"clusters": len(np.unique(labels)), "ari": ari, "why": why}
