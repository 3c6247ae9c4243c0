"""Appendix G: how much noise on the clients' uploads does clustering tolerate?

The noise has three readings of the paper's σ = √(2·ln(1.25/δ))/ε:

* `written`: Algorithm 3 to the letter, N(0, σ²G²) on each of a client's numbers;
* `sample`: as in DP-SGD, which the paper cites: a client's vector is a mean over its n samples, so the noise is divided
  by n, and ε is about one sample that is added or removed, not about the client. (A run with
  `sensitivity_noise=sample` adds twice as much, for neighbours in which one sample is replaced);
* `sketch`: the same on our sketches of 256 numbers instead of a vector as long as the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, pairwise_distances, silhouette_score

from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.algo.dp import _dp_noise_with, gaussian_sigma, local_epsilon
from sensecrypt.algo.sketching import sketch
from sensecrypt.lab.drawing import Figure, legend_below, log_axis, sheet
from sensecrypt.lab.experiments.charts import client_map, lines
from sensecrypt.lab.experiments.item import Cell, Item, Outcome, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, mean, pair_matrix, where
from sensecrypt.lab.experiments.similarity import SKETCH_SEED, Labels, Matrix, nearer_pairs, sensitivities, split
from sensecrypt.rng import derive_rng

READINGS = ("written", "sample", "sketch")
METHODS = ("AP", "K-means", "ours")
DELTA = 1e-5
MAPS = (0.1, 0.01)  # the values of ε in the paper's pictures
GOOD = 0.95  # the least ARI that counts as no drop
SHOWN = {"sample": "noise of a sample", "written": "as written"}


def cells(spec: Spec) -> list[Cell]:
    """One cell: all noise is added to the same vectors."""
    samples = spec["clients"] * spec["samples"]
    noise = 0.13 * spec["draws"] * len(spec["epsilons"]) * len(READINGS)
    return [Cell("noise", samples / (1_200 if spec["rate"] else 4_000) + noise, partial(_measure, spec))]


def _measure(spec: Spec, _folder: Path) -> list[Row]:
    parts, category = split(spec)
    clear = sensitivities(spec, parts, spec["rate"])
    sketches = np.array([sketch(row, seed=SKETCH_SEED) for row in clear])
    return noise_rows(spec, clear, sketches, category)


def noise_rows(spec: Spec, clear: Matrix, sketches: Matrix, category: Labels) -> list[Row]:
    """Scores without noise and for each reading, ε and draw; and the distances for the maps."""
    with import_module("threadpoolctl").threadpool_limits(1):  # faster: the problems are small
        return list(_noise_rows(spec, clear, sketches, category))


def _noise_rows(spec: Spec, clear: Matrix, sketches: Matrix, category: Labels) -> Iterator[Row]:
    length = float(np.median(np.linalg.norm(clear, axis=1)))
    for reading, vectors in (("written", clear), ("sample", clear), ("sketch", sketches)):
        yield from _scores(vectors, category, reading=reading, epsilon=None, clip=1.0, draw=0)
    for reading, clip, epsilon, draw in _plan(spec):
        vectors, bound = (sketches, 1.0) if reading == "sketch" else (clear, clip * length)
        rng = derive_rng(spec["seed"], f"noise {reading} {clip} {epsilon}", draw)
        distance = 1.0 if reading == "written" else 1 / spec["samples"]
        options: dict[str, float] = {"clip": bound, "epsilon": epsilon, "delta": DELTA, "distance": distance}
        noised = np.array([_dp_noise_with(row, rng.standard_normal(row.size), **options) for row in vectors])
        yield from _scores(noised, category, reading=reading, epsilon=epsilon, clip=clip, draw=draw)
        if draw == 0 and clip == 1.0 and epsilon in MAPS:
            yield from _pairs(noised, reading, epsilon)


def _plan(spec: Spec) -> Iterator[tuple[str, float, float, int]]:
    """Each reading, clipping bound in median lengths, ε, and number of the draw."""
    for reading in READINGS:
        for clip in spec["clips"] if reading == "written" else [1.0]:
            for epsilon in spec["epsilons"] if clip == 1.0 else [max(spec["epsilons"])]:
                for draw in range(spec["draws"]):
                    yield reading, clip, epsilon, draw


def _scores(
    vectors: Matrix, category: Labels, *, reading: str, epsilon: float | None, clip: float, draw: int
) -> Iterator[Row]:
    """One row per method. Methods use distances only, so short vectors with equal distances suffice."""
    short = _same_distances(vectors)
    distances = pairwise_distances(short)
    nearer, pairs = nearer_pairs(distances, category)
    sigma = None if epsilon is None else gaussian_sigma(epsilon, DELTA)
    for method in METHODS:
        labels = _cluster(short, method, int(category.max()) + 1)
        clusters = len(np.unique(labels))
        several = 1 < clusters < len(labels)
        yield {
            "kind": "score",
            "reading": reading,
            "epsilon": epsilon,
            "clip": clip,
            "draw": draw,
            "method": method,
            "ari": float(adjusted_rand_score(category, labels)),
            "silhouette": float(silhouette_score(distances, labels, metric="precomputed")) if several else 0.0,
            "clusters": clusters,
            "nearer": nearer,
            "pairs": pairs,
            "numbers": vectors.shape[1],
            "sigma": sigma,
            "local_epsilon": None if sigma is None else local_epsilon(sigma, DELTA),
        }


def _cluster(rows: Matrix, method: str, categories: int) -> Labels:
    """The labels by scikit-learn's AP, by K-means with the true number of clusters, or by our clustering."""
    if method == "ours":
        return cluster_clients(rows, random_state=0).labels
    if method == "K-means":
        return cluster_clients(rows, random_state=0, method="k-means", k=categories, min_size=1).labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(AffinityPropagation(random_state=0).fit(rows).labels_, dtype=np.int64)


def _same_distances(rows: Matrix) -> Matrix:
    """Rows with the same pairwise distances and only as many numbers as there are rows."""
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _pairs(vectors: Matrix, reading: str, epsilon: float) -> list[Row]:
    distances = pairwise_distances(_same_distances(vectors))
    kind: Row = {"kind": "pair", "reading": reading, "epsilon": epsilon}
    pairs = ((a, b) for a in range(len(distances)) for b in range(a))
    return [{**kind, "a": a, "b": b, "distance": float(f"{distances[a, b]:.6g}")} for a, b in pairs]


def draw(rows: Rows) -> Figure:
    """Noisy distance maps above; below, the accuracy of the clusters and their silhouette."""
    figure, panels = sheet("Clustering of clients under noise", panels=6, size=(13, 8))
    words = {"sample": "for a sample", "written": "as written"}
    for axes, (reading, epsilon) in zip(panels[:3], (("sample", 0.1), ("sample", 0.01), ("written", 0.1)), strict=True):
        matrix = pair_matrix(where(rows, kind="pair", reading=reading, epsilon=epsilon), "distance")
        client_map(axes, np.fmax(matrix, matrix.T), f"ε = {epsilon:g} {words[reading]}", label="distance")
    epsilons = _epsilons(rows)
    shown = (
        ("ari", ("written", "sample"), "ARI, whole vectors"),
        ("ari", ("written", "sketch"), "ARI, sketches"),
        ("silhouette", ("written", "sample"), "silhouette, whole vectors"),
    )
    for axes, (key, readings, title) in zip(panels[3:], shown, strict=True):
        series = {
            f"{method}, {SHOWN.get(reading, SHOWN['sample'])}": (
                epsilons,
                [_mean(rows, key, reading, method, epsilon) for epsilon in epsilons],
            )
            for reading in readings
            for method in (METHODS[:2] if reading == "written" else METHODS)
        }
        lines(axes, series, xlabel="ε", ylabel="")
        free = _mean(rows, key, readings[1], "AP", None)
        axes.axhline(free, color="grey", linewidth=1, linestyle=":", label="AP without noise")
        axes.legend().remove()
        log_axis(axes, "x", epsilons)
        axes.set(title=title, ylim=(-0.1, 1.05))
    legend_below(figure, axes, fontsize=9)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Each statement in both readings: to the letter, and with the noise of a sample."""
    largest = max(_epsilons(rows))
    written = {method: _mean(rows, "ari", "written", method, largest) for method in ("AP", "K-means")}
    noised = where(rows, kind="score", epsilon=largest)[0]
    numbers, sigma = noised["numbers"], noised["sigma"]
    clips = ", ".join(
        f"{clip:g} times: {_mean(rows, 'ari', 'written', 'AP', largest, clip):.2f}"
        for clip in sorted(distinct(where(rows, kind="score"), "clip"))
    )
    why = (
        f"as written, ARI {written['AP']:.2f} (AP) and {written['K-means']:.2f} (K-means) at ε = {largest:g} already: "
        f"noise of {sigma:.1f}·G on each of {numbers:,} numbers is {sigma * numbers**0.5:,.0f} times as long as the "
        f"longest clipped vector, whatever G (in median lengths; {clips})"
    )
    near = {(reading, epsilon): _share(rows, reading, epsilon) for reading in ("sample", "written") for epsilon in MAPS}
    over_all = {
        (reading, method): float(np.mean([_mean(rows, "ari", reading, method, each) for each in _epsilons(rows)]))
        for reading in ("sample", "written")
        for method in ("AP", "K-means")
    }
    bounds = [_least(rows, reading, method) for method in ("AP", "ours") for reading in ("sketch", "sample")]
    least = ["none" if bound == np.inf else f"{bound:g}" for bound in bounds]

    def both(holds: Callable[[str], bool]) -> Outcome:
        return graded(holds("written"), holds("sample"))

    return [
        Verdict(
            "the ARI of both methods suffers no drop until ε is below 0.2",
            f"{why}; noise of a sample: {_aris(rows, 'sample', ('AP', 'K-means'), 0.2)}",
            both(lambda reading: _holds(rows, reading, ("AP", "K-means"), 0.2)),
        ),
        Verdict(
            "AP even tolerates ε = 0.1",
            f"noise of a sample: {_aris(rows, 'sample', ('AP',), 0.1)} ({near['sample', 0.1]:.0%} pairs in "
            f"order); as written: {_aris(rows, 'written', ('AP',), 0.1)}",
            both(lambda reading: _holds(rows, reading, ("AP",), 0.1)),
        ),
        Verdict(
            "at ε = 0.01 similarities are useless, while at 0.1 clients of a category are still nearer",
            f"pairs in order at 0.1 and 0.01: noise of a sample {near['sample', 0.1]:.0%} and "
            f"{near['sample', 0.01]:.0%}, as written {near['written', 0.1]:.0%} and {near['written', 0.01]:.0%}",
            both(lambda reading: near[reading, 0.1] > 0.8 and near[reading, 0.01] < 0.2),
        ),
        Verdict(
            "the silhouette is sensitive to noise where the ARI is not",
            f"noise of a sample at ε = {largest:g}: silhouette {_mean(rows, 'silhouette', 'sample', 'AP', None):.2f} "
            f"→ {_mean(rows, 'silhouette', 'sample', 'AP', largest):.2f}, ARI "
            f"{_mean(rows, 'ari', 'sample', 'AP', None):.2f} → {_mean(rows, 'ari', 'sample', 'AP', largest):.2f}",
            both(lambda reading: _sensitive(rows, reading, largest)),
        ),
        Verdict(
            "AP is more robust to noise than K-means",
            "mean ARI over all ε: "
            + "; ".join(
                f"{words} {over_all[reading, 'AP']:.3f} and {over_all[reading, 'K-means']:.3f}"
                for reading, words in SHOWN.items()
            )
            + " (K-means is given the number of clusters)",
            both(lambda reading: over_all[reading, "AP"] > over_all[reading, "K-means"] + 0.02),
        ),
        _guarantee(rows),
        Verdict(
            "(ours) sketches tolerate more noise: it is on 256 numbers, not on as many as the model has",
            f"least ε without a drop of AP: {least[0]} for sketches, {least[1]} for whole vectors; our clustering, "
            f"which refuses splits of low silhouette: {least[2]} and {least[3]}",
            answer(_least(rows, "sketch") < _least(rows, "sample")),
        ),
    ]


def _guarantee(rows: Rows) -> Verdict:
    """The guarantee that the mechanism, as written, gives to a client."""
    pairs = sorted({(row["epsilon"], row["local_epsilon"]) for row in rows if row.get("local_epsilon") is not None})
    kept = [true <= nominal for nominal, true in pairs]
    words = ", ".join(f"{nominal:g}: {true:.3g}" for nominal, true in pairs)
    return Verdict(
        "noise by √(2 ln(1.25/δ))/ε gives (ε, δ)-differential privacy",
        f"for a client that adds noise to its own vector, two of which may be √2·G apart, as written (nominal: true): "
        f"{words}; noise of a sample gives the nominal ε for one sample if each sample's part is clipped to G, and far "
        "less for the client",
        graded(all(kept), any(kept)),
    )


def _mean(rows: Rows, key: str, reading: str, method: str, epsilon: float | None, clip: float = 1.0) -> float:
    return mean(where(rows, kind="score", reading=reading, method=method, epsilon=epsilon, clip=clip), key)


def _epsilons(rows: Rows) -> list[float]:
    return sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})


def _aris(rows: Rows, reading: str, methods: Sequence[str], epsilon: float) -> str:
    """The ARI at this ε and at the next smaller one."""
    smaller = max((each for each in _epsilons(rows) if each < epsilon), default=epsilon)
    return "; ".join(
        f"{method} "
        + ", ".join(f"{_mean(rows, 'ari', reading, method, each):.2f} at {each:g}" for each in (epsilon, smaller))
        for method in methods
    )


def _holds(rows: Rows, reading: str, methods: Sequence[str], low: float) -> bool:
    """Whether the ARI does not drop from `low` on."""
    tried = [each for each in _epsilons(rows) if each >= low]
    return all(_mean(rows, "ari", reading, method, each) >= GOOD for method in methods for each in tried)


def _share(rows: Rows, reading: str, epsilon: float) -> float:
    """The share of pairs of one category that are closer than any other client is to either of the two."""
    own = where(rows, kind="score", reading=reading, method="AP", epsilon=epsilon, clip=1.0)
    return float(np.mean([row["nearer"] / row["pairs"] for row in own]))


def _sensitive(rows: Rows, reading: str, epsilon: float) -> bool:
    free, noisy = (_mean(rows, "silhouette", reading, "AP", each) for each in (None, epsilon))
    return noisy < free - 0.1 and _mean(rows, "ari", reading, "AP", epsilon) >= GOOD


def _least(rows: Rows, reading: str, method: str = "AP") -> float:
    """The least ε without a drop of the ARI; infinity if there is none."""
    return min((each for each in _epsilons(rows) if _holds(rows, reading, (method,), each)), default=np.inf)


ITEM = Item("noisy-clustering", "Clustering with noise on the clients' uploads", "Appendix G", cells, draw, judge)
