"""Appendix I: does a key server that decrypts (Algorithm 2) relieve the clients that would (Algorithm 1)?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sensecrypt.lab.compare.comparison import compare
from sensecrypt.lab.compare.scenarios import scenario_settings
from sensecrypt.lab.drawing import log_axis, number, sheet
from sensecrypt.lab.experiments.charts import Range, ranges
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict
from sensecrypt.methods import parse_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE, TWO = "Algorithm 1: clients decrypt", "Algorithm 2: a key server decrypts"
METHODS = {ONE: "sensecrypt@paper", TWO: "sensecrypt@paper+key_mode=dkms"}
STEPS = ("train", "select", "encrypt", "upload", "download", "decrypt")
RELIEVED = 0.9  # of a client's time under Algorithm 1 that counts as relief


def cells(spec: Spec) -> list[Cell]:
    """A comparison for each data set, on uneven devices."""
    return [Cell(name, 60.0 * spec["rounds"], partial(_measure, spec, name)) for name in spec["datasets"]]


def _measure(spec: Spec, dataset: str, folder: Path) -> list[Row]:
    explicit = {key: spec[key] for key in ("rounds", "local_epochs", "seed")}
    settings = scenario_settings(spec["scenario"], dataset, explicit)
    methods = parse_methods(",".join(METHODS.values()), "paper")
    report = compare(spec["scenario"], methods, settings, folder, resume=True)
    rows: list[Row] = []
    for method, row in zip(METHODS, report["rows"], strict=True):
        times = {"round_seconds": fmean(each["seconds"] for each in row["rounds"])}
        times["server_seconds"] = fmean(each["server_seconds"] for each in row["rounds"])
        rows += [
            {"dataset": dataset, "method": method, **times, "client": client["client"], "cpus": client["cpus"]}
            | {step: client[step] for step in STEPS}
            for client in row["timeline"]
        ]
    return rows


def _busy(row: Mapping[str, Any]) -> float:
    return float(sum(row[step] for step in STEPS))


def draw(rows: Rows) -> Figure:
    """A client's own time in the last round, by the CPUs that it has."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    title = "A client's time in a round without waiting: mean, fastest and slowest"
    figure, panels = sheet(title, panels=len(datasets), size=(max(5.4 * len(datasets), 7.5), 4.4))
    for axes, dataset in zip(panels, datasets, strict=True):
        own = [row for row in rows if row["dataset"] == dataset]
        cpus = sorted({row["cpus"] for row in own}, reverse=True)
        series: dict[str, list[Range]] = {}
        for method in METHODS:
            times = [[_busy(row) for row in own if (row["method"], row["cpus"]) == (method, each)] for each in cpus]
            series[method] = [(min(each), fmean(each), max(each)) for each in times]
        values = [value for each in series.values() for three in each for value in three]
        log_axis(axes, "y", values)
        axes.set_ylim(top=max(values) * 4)  # room for the legend
        ranges(axes, [f"{each:g} CPUs" for each in cpus], series, ylabel="seconds on the device (logarithmic)")
        axes.legend(fontsize=8, loc="upper left")
        axes.set_title(dataset)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """What a client and the slowest one save, and where the work goes."""
    verdicts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        one, two = ([row for row in rows if (row["dataset"], row["method"]) == (dataset, name)] for name in METHODS)
        mean, slowest = (end([_busy(row) for row in two]) / end([_busy(row) for row in one]) for end in (fmean, max))
        decrypts = fmean(row["decrypt"] for row in one) / fmean(_busy(row) for row in one)
        verdicts.append(
            Verdict(
                f"{dataset}: decryption by the key server relieves the clients, the slowest most of all",
                f"a client's time is {mean:.0%} of Algorithm 1's, the slowest client's {slowest:.0%}; decryption is "
                f"{decrypts:.0%} of a client's time under Algorithm 1; a round takes {number(one[0]['round_seconds'])} "
                f"and {number(two[0]['round_seconds'])} s, of which the server {number(one[0]['server_seconds'])} and "
                f"{number(two[0]['server_seconds'])} s; reproduced: at most {RELIEVED:.0%}",
                "reproduced" if max(mean, slowest) <= RELIEVED else "not reproduced",
            )
        )
    return verdicts


ITEM = Item(
    "two-servers",
    "Clients that decrypt against a key server that does",
    "Appendix I",
    lambda spec: list(spec["datasets"]),
    cells,
    draw,
    judge,
)
