"""Appendix M: is |w·∇L| the change of the loss when w is set to zero?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import spearmanr
from torch import nn

from sensecrypt.algo.ordering import descending_order
from sensecrypt.client.training import train
from sensecrypt.data import load_dataset
from sensecrypt.lab.attacks.synthetic import samples_at
from sensecrypt.lab.drawing import Figure, log_axis, number
from sensecrypt.lab.experiments.charts import panel_each
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, graded
from sensecrypt.lab.experiments.picking import by
from sensecrypt.models import DEFAULT_MODEL, build_model, get_vector, mean_gradient, set_vector
from sensecrypt.rng import derive_rng, derive_seed

SHARES = (0.001, 0.01, 0.1, 0.5)  # the most sensitive parameters, as shares of all
_STEPS = {  # AlexNet diverges with larger ones
    "fashion-mnist": {"learning_rate": 0.05, "momentum": 0.9},
    "cifar-10": {"learning_rate": 0.01, "momentum": 0.5},
}


def cells(spec: Spec) -> list[Cell]:
    """One cell per data set."""
    seconds = 10 + spec["singles"] * spec["samples"] / 6000
    return [Cell(name, seconds, partial(_measure, name, spec)) for name in spec["datasets"]]


def _measure(dataset: str, spec: Spec, _folder: Path) -> list[Row]:
    """Single random parameters, then groups of the most sensitive, in a briefly trained network."""
    data = load_dataset(dataset)
    rng = derive_rng(spec["seed"], f"taylor {dataset}")
    chosen = np.asarray(rng.choice(len(data.train_labels), spec["samples"], replace=False))
    images, labels = samples_at(data.train_images, data.train_labels, chosen)
    model = build_model(DEFAULT_MODEL[dataset], seed=derive_seed(spec["seed"], "model"))
    train(model, images, labels, epochs=spec["epochs"], batch_size=32, seed=1, **_STEPS[dataset])
    weights, gradient = get_vector(model), mean_gradient(model, images, labels)
    products = weights.astype(np.float64) * gradient
    order, _ = descending_order(np.abs(products))
    moved = np.flatnonzero(products)
    groups = [np.array([place]) for place in rng.choice(moved, spec["singles"], replace=False)]
    groups += [order[: round(share * weights.size)] for share in SHARES]
    whole = _loss(model, weights, images, labels)
    rows: list[Row] = []
    for group in groups:
        without = weights.copy()
        without[group] = 0.0
        true = abs(whole - _loss(model, without, images, labels))
        estimate = abs(float(products[group].sum()))
        share = group.size / weights.size if group.size > 1 else 0.0
        group_of: Row = {"dataset": dataset, "share": share, "parameters": group.size, "loss": whole}
        rows.append({**group_of, "true": true, "estimate": estimate})
    return rows


def _loss(model: nn.Module, weights: npt.NDArray[np.float32], images: torch.Tensor, labels: torch.Tensor) -> float:
    """The loss in double precision, as single precision does not resolve the effect of one parameter."""
    set_vector(model, weights)
    model.double().eval()
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(model(images.double()), labels))
    model.float()
    return loss


def draw(rows: Rows) -> Figure:
    """The estimate by the true change, for single parameters and groups."""
    figure, panels = panel_each(rows, "dataset", "Change of the loss without a parameter", width=5.2, least=0)
    for axes, own in panels:
        for kind, marker, colour in (("one parameter", ".", "#0072B2"), ("a group", "D", "#D55E00")):
            part = [row for row in own if (row["parameters"] == 1) == (kind == "one parameter")]
            axes.plot([r["true"] for r in part], [r["estimate"] for r in part], marker, color=colour, label=kind, ms=5)
        values = [row[key] for row in own for key in ("true", "estimate") if row[key] > 0]
        log_axis(axes, "x", values)
        log_axis(axes, "y", values)
        axes.plot([min(values), max(values)], [min(values), max(values)], color="grey", linewidth=1, label="equal")
        axes.set(xlabel="true change of the loss", ylabel="|w·g|")
        axes.legend(fontsize=8)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Single parameters are judged by rank correlation and median ratio, groups by their ratio."""
    return [verdict for name, own in by(rows, "dataset").items() for verdict in _judged(name, own)]


def _judged(name: str, rows: Rows) -> Iterator[Verdict]:
    single, groups = ([row for row in rows if (row["parameters"] == 1) == alone] for alone in (True, False))
    true, estimate = (np.array([row[key] for row in single]) for key in ("true", "estimate"))
    correlation = float(spearmanr(true, estimate).statistic)
    ratio = float(np.median(estimate / true))
    yield Verdict(
        f"{name}: the first-order term stands for the change of the loss, higher orders being negligible",
        f"one parameter: rank correlation {correlation:.3f}, median estimate / truth {ratio:.2f}",
        graded(correlation > 0.95 and 0.8 < ratio < 1.25, correlation > 0.8),
    )
    ratios = {row["share"]: row["estimate"] / row["true"] for row in groups}
    yield Verdict(
        f"{name}: the same holds for the whole subset w that is encrypted",
        "estimate / truth of the most sensitive "
        + ", ".join(f"{share:.1%}: {number(each)}" for share, each in ratios.items()),
        graded(all(0.5 < each < 2 for each in ratios.values())),
    )


ITEM = Item("taylor", "First-order sensitivity against the true change of the loss", "Appendix M", cells, draw, judge)
