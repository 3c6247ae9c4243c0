"""Appendix E: do clients with similar data have similar sensitivities?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score, pairwise_distances, silhouette_score

from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.algo.sketching import sketch
from sensecrypt.client.training import train, warm_up
from sensecrypt.data import by_categories, class_histogram, earth_movers_distance, load_dataset
from sensecrypt.lab.attacks.synthetic import samples_at
from sensecrypt.lab.drawing import Figure, sheet
from sensecrypt.lab.experiments.charts import client_map
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import by, distinct, pair_matrix, where
from sensecrypt.models import DEFAULT_MODEL, build_model, get_vector, mean_gradient
from sensecrypt.rng import derive_rng, derive_seed

Matrix = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
SKETCH_SEED = bytes(range(32))
KINDS = ("clear", "sketch")


def cells(spec: Spec) -> list[Cell]:
    """One cell per learning rate of the iteration; 0: before training."""
    samples = spec["clients"] * spec["samples"]
    return [
        Cell(f"rate-{rate:g}", samples / (1_200 if rate else 4_000), partial(_measure, spec, rate))
        for rate in spec["rates"]
    ]


def split(spec: Spec) -> tuple[list[Labels], Labels]:
    """The samples of each client and its category: two classes of CIFAR-10 each, clients in the order of categories."""
    labels = load_dataset(spec["dataset"]).train_labels
    rng = derive_rng(spec["seed"], "similarity")
    parts = by_categories(labels, spec["clients"], spec["categories"], rng=rng)
    few = [np.sort(rng.permutation(part)[: spec["samples"]]) for part in parts]
    groups = np.array_split(np.arange(spec["clients"]), spec["categories"])
    return few, np.concatenate([np.full(len(group), place) for place, group in enumerate(groups)])


def sensitivities(spec: Spec, parts: Sequence[Labels], rate: float) -> Matrix:
    """|w·g| of every client after one local epoch at this learning rate, one row per client; 0: before training."""
    torch.set_num_threads(1)
    warm_up()
    data = load_dataset(spec["dataset"])
    rows = []
    for client, part in enumerate(parts):
        images, labels = samples_at(data.train_images, data.train_labels, part)
        model = build_model(DEFAULT_MODEL[spec["dataset"]], seed=derive_seed(spec["seed"], "model"))
        if rate:
            seed = derive_seed(spec["seed"], "batches", client)
            fixed = {key: spec[key] for key in ("batch_size", "momentum")}
            train(model, images, labels, epochs=1, learning_rate=rate, seed=seed, **fixed)
        rows.append(sensitivity(get_vector(model), mean_gradient(model, images, labels)).astype(np.float64))
    return np.array(rows)


def _measure(spec: Spec, rate: float, _folder: Path) -> list[Row]:
    parts, category = split(spec)
    data = load_dataset(spec["dataset"])
    histograms = [class_histogram(data.train_labels, part, data.classes) for part in parts]
    clear = sensitivities(spec, parts, rate)
    vectors = {"clear": clear, "sketch": np.array([sketch(row, seed=SKETCH_SEED) for row in clear])}
    distances = {kind: pairwise_distances(rows) for kind, rows in vectors.items()}
    found = {kind: cluster_clients(rows, random_state=0).labels for kind, rows in vectors.items()}
    return [
        {
            "rate": rate,
            "a": a,
            "b": b,
            "category_a": int(category[a]),
            "category_b": int(category[b]),
            "emd": round(earth_movers_distance(histograms[a], histograms[b]), 6),
            **{kind: float(f"{distances[kind][a, b]:.6g}") for kind in KINDS},
            **{f"cluster_{kind}_of_a": int(found[kind][a]) for kind in KINDS},
        }
        for a in range(len(parts))
        for b in range(len(parts))
    ]


def draw(rows: Rows) -> Figure:
    """Distances of the data, of sensitivities and of sketches, relative to the largest."""
    rates = distinct(rows, "rate")
    panels = [(rates[0], "emd", "earth mover's distance of the data")]
    for rate in rates:
        panels += [(rate, "clear", f"sensitivities, {_when(rate)}"), (rate, "sketch", f"sketches, {_when(rate)}")]
    title = "Pairwise distance of clients, in units of the largest"
    figure, grid = sheet(title, panels=2 * (1 + len(rates)), size=(8.6, 3.5 * (1 + len(rates))), columns=2)
    grid.pop(1).remove()
    for each, (rate, key, title) in zip(grid, panels, strict=True):
        matrix = pair_matrix(where(rows, rate=rate), key)
        client_map(each, matrix / (matrix.max() or 1.0), title, low=0.0, high=1.0)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Whether clients of a category are closest to each other, and whether clustering finds the categories."""
    rates = by(rows, "rate")
    scores = {(rate, kind): _score(own, kind) for rate, own in rates.items() for kind in KINDS}
    head = "pairs of a category that are nearer than any other client of either: "
    words = {kind: head + "; ".join(f"{_when(rate)}: {scores[rate, kind].words}" for rate in rates) for kind in KINDS}
    perfect = {kind: [scores[rate, kind].perfect for rate in rates] for kind in KINDS}
    across = {rate: _outside(own) for rate, own in rates.items()}
    return [
        Verdict(
            "distances of sensitivity vectors within a category are highly consistent with the EMD of the data",
            words["clear"],
            graded(all(perfect["clear"]), any(perfect["clear"])),
        ),
        Verdict(
            "the map does not completely follow the EMD",
            "rank correlation with the EMD over pairs of different categories: "
            + ", ".join(f"{value:+.2f} ({_when(rate)})" for rate, value in across.items())
            + "; this EMD depends on the numbers of the classes, which networks do not know",
            graded(max(across.values()) < 0.8),
        ),
        Verdict(
            "sensitivity can stand for the data in clustering (the vectors are uploaded in the clear); "
            "ours uploads keyed sketches of 256 numbers, of unit length",
            words["sketch"],
            answer(all(perfect["sketch"])),
        ),
    ]


@dataclass(frozen=True)
class _Score:
    """How well distances separate categories: correct pairs of all pairs, silhouette, and ARI of the clusters found."""

    nearer: int
    pairs: int
    silhouette: float
    ari: float

    @property
    def perfect(self) -> bool:
        """Whether all pairs and all clusters are correct."""
        return self.nearer == self.pairs and self.ari == 1.0

    @property
    def words(self) -> str:
        """The score in one line."""
        return f"{self.nearer} of {self.pairs}, silhouette {self.silhouette:.2f}, ARI {self.ari:.2f}"


def _score(rows: Rows, kind: str) -> _Score:
    matrix = pair_matrix(rows, kind)
    own = {row["a"]: (row["category_a"], row[f"cluster_{kind}_of_a"]) for row in rows}
    category, found = (np.array([own[client][place] for client in sorted(own)]) for place in (0, 1))
    silhouette = float(silhouette_score(matrix, category, metric="precomputed"))
    return _Score(*nearer_pairs(matrix, category), silhouette, float(adjusted_rand_score(category, found)))


def nearer_pairs(matrix: Matrix, category: npt.ArrayLike) -> tuple[int, int]:
    """The number of pairs of one category that are closer than any other client is to either; and of all pairs."""
    kind = np.asarray(category)
    other = np.where(kind[:, None] != kind, matrix, np.inf).min(axis=1)
    pairs = [(a, b) for a in range(len(kind)) for b in range(a) if kind[a] == kind[b]]
    return sum(bool(matrix[a, b] < min(other[a], other[b])) for a, b in pairs), len(pairs)


def _outside(rows: Rows) -> float:
    """Rank correlation of both distances over pairs of different categories."""
    pairs = [row for row in rows if row["category_a"] != row["category_b"]]
    return float(spearmanr([row["emd"] for row in pairs], [row["clear"] for row in pairs]).statistic)


def _when(rate: float) -> str:
    return f"one epoch at rate {rate:g}" if rate else "before training"


ITEM = Item("similarity", "Distance of data and distance of sensitivities", "Appendix E", cells, draw, judge)
