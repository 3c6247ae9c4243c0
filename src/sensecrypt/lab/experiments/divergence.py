"""Appendix D: does the union of the clients' masks grow with the distance of their data?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.data.partition import mean_emd
from sensecrypt.lab.compare.scenarios import scenario_settings
from sensecrypt.lab.drawing import Figure, colour_of, sheet
from sensecrypt.lab.experiments.comparing import compared, run_settings
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, graded
from sensecrypt.lab.experiments.picking import by, mean, where

SCENARIO = "divergence"
METHODS = {"MaskCrypt": "maskcrypt_union@paper", "most sensitive": "high_sensitivity@paper"}
VARIANTS = [(method, gradient) for gradient in ("start", "trained") for method in METHODS]
SHOWN = VARIANTS[:2]  # at the model that a round starts from, as in preset paper
SIGNIFICANT = 1.15  # times the union on IID data
PAPERS_EMD = {"classes:10": 0.0, "classes:5": 2.78, "classes:2": 3.56, "classes:1": 3.67}


def cells(spec: Spec) -> list[Cell]:
    """One run per partition and seed."""
    seconds = 12.0 + spec["rounds"] * (6.0 + 12.0 * spec["local_epochs"])
    return [
        Cell(f"{name.replace(':', '-')}-{seed}", seconds, partial(_measure, spec, name, seed))
        for seed in spec["seeds"]
        for name in spec["partitions"]
    ]


def _measure(spec: Spec, partition: str, seed: int, folder: Path) -> list[Row]:
    settings = run_settings(spec, seed=seed, partition=partition)
    methods = [f"{METHODS[name]}+gradient={at}" for name, at in VARIANTS]
    report = compared(SCENARIO, spec["dataset"], methods, settings, folder, preset="paper", crypto="calibrated")
    problem = configured_problem(make_config(scenario_settings(SCENARIO, spec["dataset"], settings)))
    distances = _distances([np.bincount(labels.numpy(), minlength=problem.classes) for _, labels in problem.clients])
    return [
        {"partition": partition, "seed": seed, "method": method, "gradient": gradient, "ratio": spec["ratio"]}
        | {"union": row["union_share"], **distances, "accuracy": row["accuracy_mean"]}
        for (method, gradient), row in zip(VARIANTS, report["rows"], strict=True)
    ]


def _distances(histograms: Sequence[npt.NDArray[np.int64]]) -> dict[str, float]:
    """Means over pairs of clients: the EMD with class distance |i - j|, as in the paper, and with equal distances."""
    shares = [histogram / histogram.sum() for histogram in histograms]
    distances = [float(np.abs(one - other).sum()) for one, other in combinations(shares, 2)]
    return {"emd": mean_emd(histograms), "histogram_distance": float(np.mean(distances))}


def _course(rows: Rows, method: str, gradient: str) -> list[dict[str, Any]]:
    """A method's rows averaged over the seeds, the closest data first."""
    means: list[dict[str, Any]] = [
        {"partition": partition, "unions": [float(row["union"]) for row in own]}
        | {key: mean(own, key) for key in ("union", "emd", "histogram_distance")}
        for partition, own in by(where(rows, method=method, gradient=gradient), "partition").items()
    ]
    return sorted(means, key=lambda row: float(row["emd"]))


def draw(rows: Rows) -> Figure:
    """The union of the masks beside the distance of the data, as in the paper."""
    figure, [axes] = sheet("Union of the clients' masks, and how far apart their data are", panels=1, size=(8.5, 4.4))
    handles: list[Any] = []
    names = []
    for number, variant in enumerate(SHOWN):
        course = _course(rows, *variant)
        places = np.arange(len(course)) - 0.28 + 0.28 * number
        bars = axes.bar(places, [100 * row["union"] for row in course], 0.26, color=colour_of(number))
        axes.bar_label(bars, [f"{row['union']:.1%}" for row in course], padding=2, fontsize=8)
        handles.append(bars)
        names.append(f"union of the masks, {variant[0]}")
    own_ratio = 100 * float(rows[0]["ratio"])
    right = axes.twinx()
    emds = [float(row["emd"]) for row in course]
    distance = right.bar(np.arange(len(course)) + 0.28, emds, 0.26, color=colour_of(4))
    right.bar_label(distance, [f"{each:.2f}" for each in emds], padding=2, fontsize=8)
    handles += [axes.axhline(own_ratio, color="grey", linestyle="--", linewidth=1), distance]
    names += [f"each client's own mask: {own_ratio:g} %", "distance of the data"]
    axes.set(ylabel="share of the parameters encrypted, %", ylim=(0, 118 * max(row["union"] for row in rows) + 8))
    axes.grid(axis="y")
    right.set(ylabel="mean earth mover's distance", ylim=(0, 5.2))
    right.spines["right"].set_visible(True)
    axes.set_xticks(range(len(course)), [_words(row["partition"]) for row in course])
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _words(partition: str) -> str:
    kind, _, count = partition.partition(":")
    return "IID" if kind == "iid" else f"{count} class{'es' if count != '1' else ''} per client"


def judge(rows: Rows) -> list[Verdict]:
    """The distances, and whether the union grows with them."""
    course = _course(rows, *SHOWN[0])
    courses = {variant: [row["unions"] for row in _course(rows, *variant)] for variant in VARIANTS}
    near = [abs(row["emd"] - PAPERS_EMD[row["partition"]]) < 0.05 for row in course if row["partition"] in PAPERS_EMD]
    words = ", ".join(
        f"{_words(row['partition'])} {row['emd']:.2f} ({row['histogram_distance']:.2f})" for row in course
    )
    ratio = float(rows[0]["ratio"])
    means = {variant: [float(np.mean(each)) for each in courses[variant]] for variant in SHOWN}
    largest = max(max(means[variant]) for variant in SHOWN)
    says = {
        (method, at): f"as the mean EMD increases, the HE ratio also significantly rises ({method})"
        if (method, at) in SHOWN
        else f"the same with sensitivities after training (gradient = {at}, {method})"
        for method, at in VARIANTS
    }
    return [
        Verdict(
            "mean earth mover's distances of the data: 0, 2.78, 3.56 and 3.67",
            f"{words}: classes i and j lie |i - j| apart, mean over all pairs of clients; in brackets the sum of "
            f"|p - q|, which does not depend on how classes are numbered",
            graded(bool(near) and all(near)),
        ),
        *(_rising(says[variant], courses[variant], ratio) for variant in VARIANTS),
        Verdict(
            "the mask for all may be much larger than any client's own",
            f"up to {largest / ratio:.1f} times, and {means[SHOWN[0]][0] / ratio:.1f} times where data are alike; "
            "much larger: twice",
            graded(largest > 2 * ratio),
        ),
    ]


def _rising(says: str, course: list[list[float]], ratio: float) -> Verdict:
    """The verdict on the means over the seeds, with the range over the seeds."""
    unions = [float(np.mean(each)) for each in course]
    rises = all(later > earlier for earlier, later in pairwise(unions))
    grows = unions[-1] / unions[0]
    words = ", ".join(
        f"{union:.1%}" + (f" ({min(each):.1%} to {max(each):.1%})" if len(each) > 1 else "")
        for union, each in zip(unions, course, strict=True)
    )
    return Verdict(
        says,
        f"union of masks of {ratio:.0%} each, mean of {len(course[0])} seed(s): {words}: {grows:.2f} times; "
        f"reproduced: rises from each to the next, in all {SIGNIFICANT:g} times; in shape: the last is larger by that",
        graded(rises and grows >= SIGNIFICANT, grows >= SIGNIFICANT),
    )


ITEM = Item("divergence", "Union of the masks against how far apart data are", "Appendix D", cells, draw, judge)
