"""Appendix D: the further apart the clients' data, the larger the union of what they want encrypted?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sensecrypt.compare.comparison import compare
from sensecrypt.compare.contestants import parse_contestants
from sensecrypt.compare.scenarios import scenario_settings
from sensecrypt.config import make_config
from sensecrypt.data.partition import mean_emd
from sensecrypt.drawing import colour_of, sheet
from sensecrypt.engines.problem import configured_problem
from sensecrypt.experiments.item import Cell, Item, Row, Rows, Spec, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIO = "divergence"
PAPERS_EMD = {"classes:10": 0.0, "classes:5": 2.78, "classes:2": 3.56, "classes:1": 3.67}


def cells(spec: Spec) -> list[Cell]:
    """A run for each partition."""
    seconds = 12.0 + spec["rounds"] * (6.0 + 12.0 * spec["local_epochs"])
    return [Cell(name.replace(":", "-"), seconds, partial(_measure, spec, name)) for name in spec["partitions"]]


def _measure(spec: Spec, partition: str, folder: Path) -> list[Row]:
    explicit = {**{key: spec[key] for key in ("rounds", "local_epochs", "seed", "ratio")}, "partition": partition}
    settings = scenario_settings(SCENARIO, spec["dataset"], explicit)
    contestants = parse_contestants("maskcrypt_union@paper", "paper")
    report = compare(SCENARIO, contestants, settings, folder, crypto="calibrated", resume=True)
    problem = configured_problem(make_config(settings))
    distances = _distances([np.bincount(labels.numpy(), minlength=problem.classes) for _, labels in problem.clients])
    return [
        {
            "partition": partition,
            "round": each["round"] + 1,
            "ratio": spec["ratio"],
            "union": each["encrypted_share"],
            **distances,
            "accuracy": each["accuracy_mean"],
        }
        for each in report["rows"][0]["rounds"]
    ]


def _distances(histograms: Sequence[npt.NDArray[np.int64]]) -> dict[str, float]:
    """Mean over all pairs of clients: classes i and j lying |i - j| apart, as in the paper; and all alike far apart."""
    shares = [histogram / histogram.sum() for histogram in histograms]
    apart = [float(np.abs(one - other).sum()) for one, other in combinations(shares, 2)]
    return {"emd": mean_emd(histograms), "histogram_distance": float(np.mean(apart))}


def _means(rows: Rows) -> list[dict[str, float | str]]:
    """A mean a partition, the closest first."""
    found = []
    for name in dict.fromkeys(row["partition"] for row in rows):
        own = [row for row in rows if row["partition"] == name]
        means = {key: sum(row[key] for row in own) / len(own) for key in ("emd", "histogram_distance", "union")}
        found.append({"partition": name, **means})
    return sorted(found, key=lambda each: float(each["emd"]))


def draw(rows: Rows) -> Figure:
    """The union of the masks and the distance of the data beside each other, as in the paper; rounds as dots."""
    means = _means(rows)
    figure, [axes] = sheet("Union of the clients' masks, and how far apart their data are", panels=1, size=(8.5, 4.4))
    places = np.arange(len(means))
    union = axes.bar(places - 0.2, [100 * float(each["union"]) for each in means], 0.38, color=colour_of(0))
    axes.bar_label(union, [f"{float(each['union']):.1%}" for each in means], padding=8, fontsize=8)
    for place, each in enumerate(means):
        own = [100 * row["union"] for row in rows if row["partition"] == each["partition"]]
        axes.plot([place - 0.2] * len(own), own, ".", color="black", markersize=5)
    own_ratio = 100 * float(rows[0]["ratio"])
    line = axes.axhline(own_ratio, color="grey", linestyle="--", linewidth=1)
    axes.set(ylabel="share of the parameters encrypted, %", ylim=(0, 118 * max(row["union"] for row in rows) + 8))
    axes.grid(axis="y")
    right = axes.twinx()
    distance = right.bar(places + 0.2, [float(each["emd"]) for each in means], 0.38, color=colour_of(4))
    right.bar_label(distance, [f"{float(each['emd']):.2f}" for each in means], padding=2, fontsize=8)
    right.set(ylabel="mean earth mover's distance", ylim=(0, 5.2))
    right.spines["right"].set_visible(True)
    axes.set_xticks(places, [_words(str(each["partition"])) for each in means])
    handles: list[Any] = [union, distance, line]
    names = ["union of the masks (dots: rounds)", "distance of the data", f"each client's own mask: {own_ratio:g} %"]
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _words(partition: str) -> str:
    kind, _, count = partition.partition(":")
    return "IID" if kind == "iid" else f"{count} class{'es' if count != '1' else ''} a client"


def judge(rows: Rows) -> list[Verdict]:
    """The distances, and whether the union grows with them."""
    means = _means(rows)
    unions = [float(each["union"]) for each in means]
    near = [
        abs(float(each["emd"]) - PAPERS_EMD[str(each["partition"])]) < 0.05
        for each in means
        if each["partition"] in PAPERS_EMD
    ]
    words = ", ".join(
        f"{_words(str(each['partition']))} {each['emd']:.2f} ({each['histogram_distance']:.2f})" for each in means
    )
    shares = ", ".join(
        f"{_words(str(each['partition']))} {union:.1%}" for each, union in zip(means, unions, strict=True)
    )
    rises = all(later > earlier for earlier, later in pairwise(unions))
    apart = min(unions[1:], default=0.0) > unions[0]
    ratio = float(rows[0]["ratio"])
    return [
        Verdict(
            "mean earth mover's distances of the data: 0, 2.78, 3.56 and 3.67",
            f"{words}: classes i and j lie |i - j| apart, mean over all pairs of clients; in brackets the sum of "
            f"|p - q|, which does not depend on how classes are numbered",
            "reproduced" if near and all(near) else "not reproduced",
        ),
        Verdict(
            "as the mean EMD increases, the HE ratio also significantly rises",
            f"union of masks of {ratio:.0%} each: {shares}",
            "reproduced" if rises else "reproduced in shape" if apart else "not reproduced",
        ),
        Verdict(
            "the mask for all may be much larger than any client's own",
            f"up to {max(unions) / ratio:.1f} times, and {unions[0] / ratio:.1f} times where data are alike",
            "reproduced" if max(unions) > 2 * ratio else "not reproduced",
        ),
    ]


ITEM = Item(
    "divergence",
    "Union of the masks against how far apart data are",
    "Appendix D",
    lambda spec: [spec["dataset"]],
    cells,
    draw,
    judge,
)
