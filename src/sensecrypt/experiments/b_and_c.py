"""Appendix F: which B and C can a slow client afford, and what do they give it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import spearmanr

from sensecrypt.algo.selection import security_floor, select
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.data import iid, load_dataset
from sensecrypt.drawing import sheet
from sensecrypt.engines.training import as_tensor, train
from sensecrypt.errors import InfeasibleSelection
from sensecrypt.experiments.charts import heat_map
from sensecrypt.experiments.item import Cell, Item, Row, Rows, Spec, Verdict
from sensecrypt.models import DEFAULT_MODEL, build_model, get_vector, mean_gradient
from sensecrypt.rng import derive_rng, derive_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST, SECOND = (1.5, 0.3), (1.4, 0.4)  # the paper's
# Weights of cost and protection: the paper's own, and cost alone, where the floor decides how much is encrypted.
OBJECTIVES = {"balanced": (1.0, 1.0), "cheapest": (1e9, 1.0)}


def cells(spec: Spec) -> list[Cell]:
    """One client, all combinations."""
    return [Cell("client", 3 + 3 * spec["epochs"], partial(_measure, spec))]


def _measure(spec: Spec, _folder: Path) -> list[Row]:
    torch.set_num_threads(1)
    data = load_dataset(spec["dataset"])
    part = iid(data.train_labels, spec["clients"], rng=derive_rng(spec["seed"], "b-and-c"))[0]
    images, labels = as_tensor(data.train_images[part]), torch.from_numpy(data.train_labels[part])
    model = build_model(DEFAULT_MODEL[spec["dataset"]], seed=derive_seed(spec["seed"], "model"))
    train(model, images, labels, epochs=spec["epochs"], batch_size=32, learning_rate=0.01, momentum=0.5, seed=1)
    weights = get_vector(model)
    gains = sensitivity(weights, mean_gradient(model, images, labels))
    pairs = list(product(spec["B"], spec["C"]))
    return combinations(weights, gains, budget=spec["budget"], pairs=pairs, max_mi=spec["max_mi"])


def combinations(
    weights: npt.ArrayLike,
    gains: npt.ArrayLike,
    *,
    budget: float,
    pairs: Iterable[tuple[float, float]],
    max_mi: float,
) -> list[Row]:
    """A row for each objective and pair (B, C): what is encrypted, what it leaks; None where nothing fits."""
    rows: list[Row] = []
    for objective, beta in OBJECTIVES.items():
        for step, scale in pairs:
            row: Row = {"objective": objective, "B": step, "C": scale, "max_mi": max_mi, "ratio": None, "mi": None}
            row["floor"] = security_floor(budget, B=step, C=scale)
            try:
                found = select(gains, budget, B=step, C=scale, weights=weights, beta=beta)
            except InfeasibleSelection:
                rows.append(row)
                continue
            rows.append(row | {"ratio": found.mask.share, "mi": found.mi})
    return rows


def draw(rows: Rows) -> Figure:
    """Ratio and mutual information over B and C, for both objectives."""
    figure, panels = sheet("A client with a budget of 10 %; white: infeasible", panels=4, size=(12, 9), columns=2)
    place = 0
    ends = {key: [row[key] for row in rows if row[key] is not None] or [0.0] for key in ("ratio", "mi")}
    for objective, words in (("balanced", "β₁ = β₂, the paper's"), ("cheapest", "as little as the floor allows")):
        own = [row for row in rows if row["objective"] == objective]
        for key, label, scale in (("ratio", "encrypted, %", 100.0), ("mi", "mutual information, bits", 1.0)):
            matrix, steps, scales = _matrix(own, key)
            heat_map(
                panels[place],
                matrix * scale,
                xticks=[f"{each:g}" for each in scales],
                yticks=[f"{each:g}" for each in steps],
                label=label,
                write=True,
                low=scale * min(ends[key]),
                high=scale * max(ends[key]),
            )
            panels[place].set(title=f"{label}: {words}", xlabel="C", ylabel="B")
            place += 1
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """By the objective of least cost: with equal weights, ours does not hang on B and C."""
    balanced, cheapest = ([row for row in rows if row["objective"] == name] for name in OBJECTIVES)
    feasible = [row for row in cheapest if row["ratio"] is not None]
    flat = sorted({row["ratio"] for row in balanced if row["ratio"] is not None})
    first = max(feasible, key=lambda row: row["ratio"])
    least = min(feasible, key=lambda row: row["mi"])
    cell = {(row["B"], row["C"]): row for row in cheapest}
    correlation = (
        float(spearmanr([row["ratio"] for row in feasible], [row["mi"] for row in feasible]).statistic)
        if len({row["ratio"] for row in feasible}) > 2
        else 0.0
    )
    limit = cheapest[0]["max_mi"]
    lowest = min((row["mi"] for row in balanced if row["mi"] is not None), default=float("nan"))
    white = [row for row in cheapest if row["ratio"] is None]
    whole = f"with β₁ = β₂ feasible cells encrypt {_span(flat)}"
    return [
        Verdict(
            "MI generally decreases with the encryption ratio",
            f"rank correlation {correlation:.2f} over {len(feasible)} cells of least cost; {whole}"
            + (": there the floor decides whether, not how much" if len(flat) == 1 else ""),
            "reproduced"
            if correlation < -0.8 and len(flat) > 1
            else "reproduced in shape"
            if correlation < -0.8
            else "not reproduced",
        ),
        Verdict(
            "some combinations have no feasible solution",
            f"{len(white)} of {len(cheapest)} infeasible, all with floors of {_least(white):.3f} or more; the "
            f"budget alone brings the MI to {lowest:.2f} bits, so a bound of {limit:g} bits leaves "
            f"{'nothing' if lowest > limit else 'the rest'} feasible",
            "reproduced" if 0 < len(white) < len(cheapest) else "not reproduced",
        ),
        Verdict(
            "(B = 1.5, C = 0.3) is the best: the largest ratio and the least MI",
            f"ours is (B = {first['B']:g}, C = {first['C']:g}): {first['ratio']:.1%}, {first['mi']:.3f} bits; the "
            f"paper's: {_words(cell.get(BEST))}; the best is the highest feasible floor, which differs from client "
            "to client",
            "reproduced"
            if (first["B"], first["C"]) == BEST
            else "reproduced in shape"
            if first["floor"] == least["floor"] == max(row["floor"] for row in feasible)
            else "not reproduced",
        ),
        Verdict(
            "(B = 1.4, C = 0.4) is a suboptimal choice with a margin",
            f"{_words(cell.get(SECOND))}, against {_words(cell.get(BEST))} at (1.5, 0.3)",
            "reproduced" if _below(cell.get(SECOND), cell.get(BEST)) else "not reproduced",
        ),
    ]


def _span(ratios: list[float]) -> str:
    if not ratios:
        return "nothing"
    low, high = (f"{end:.1%}" for end in (ratios[0], ratios[-1]))
    return low if low == high else f"{low} to {high}"


def _least(rows: Rows) -> float:
    return min((row["floor"] for row in rows), default=float("nan"))


def _words(row: Mapping[str, Any] | None) -> str:
    if row is None or row["ratio"] is None:
        return "infeasible"
    return f"{row['ratio']:.1%}, {row['mi']:.3f} bits"


def _below(row: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether a choice is feasible and encrypts less than the other, and leaks more."""
    if row is None or other is None or row["ratio"] is None or other["ratio"] is None:
        return False
    return bool(row["ratio"] < other["ratio"] and row["mi"] > other["mi"])


def _matrix(rows: Rows, key: str) -> tuple[npt.NDArray[np.float64], list[float], list[float]]:
    steps, scales = (sorted({row[name] for row in rows}) for name in ("B", "C"))
    matrix = np.full((len(steps), len(scales)), np.nan)
    for row in rows:
        if row[key] is not None:
            matrix[steps.index(row["B"]), scales.index(row["C"])] = row[key]
    return matrix, steps, scales


ITEM = Item(
    "b-and-c",
    "Encryption ratio and mutual information over B and C",
    "Appendix F",
    lambda spec: [spec["dataset"]],
    cells,
    draw,
    judge,
)
