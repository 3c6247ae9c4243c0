"""Appendix I: does decryption by a key server (Algorithm 2) save time of clients, which decrypt in Algorithm 1?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from sensecrypt.lab.drawing import Figure, number
from sensecrypt.lab.experiments.charts import log_ranges, panel_each
from sensecrypt.lab.experiments.comparing import compared, run_settings
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, graded
from sensecrypt.lab.experiments.picking import by, span, where

ONE, TWO = "Algorithm 1: clients decrypt", "Algorithm 2: a key server decrypts"
METHODS = {ONE: "sensecrypt@paper", TWO: "sensecrypt@paper+key_mode=dkms"}
STEPS = ("train", "select", "encrypt", "upload", "download", "decrypt")
_MEANS = {"round_seconds": "seconds", "server_seconds": "server_seconds"}
RELIEVED = 0.9  # the largest part of the time under Algorithm 1 that counts as relief


def cells(spec: Spec) -> list[Cell]:
    """One comparison per data set, on uneven devices."""
    return [Cell(name, 60.0 * spec["rounds"], partial(_measure, spec, name)) for name in spec["datasets"]]


def _measure(spec: Spec, dataset: str, folder: Path) -> list[Row]:
    report = compared(spec["scenario"], dataset, METHODS.values(), run_settings(spec), folder, preset="paper")
    rows: list[Row] = []
    for method, row in zip(METHODS, report["rows"], strict=True):
        means: Row = {key: fmean(each[name] for each in row["rounds"]) for key, name in _MEANS.items()}
        rows += [
            {"dataset": dataset, "method": method, **means} | {key: client[key] for key in ("client", "cpus", *STEPS)}
            for client in row["timeline"]
        ]
    return rows


def _busy(row: Mapping[str, Any]) -> float:
    return float(sum(row[step] for step in STEPS))


def draw(rows: Rows) -> Figure:
    """A client's own time in the last round by its CPUs."""
    title = "A client's time in a round without waiting: mean, fastest and slowest"
    figure, panels = panel_each(rows, "dataset", title)
    for axes, own in panels:
        cpus = sorted({row["cpus"] for row in own}, reverse=True)
        series = {
            method: [span([_busy(row) for row in where(own, method=method, cpus=each)]) for each in cpus]
            for method in METHODS
        }
        groups = [f"{each:g} CPUs" for each in cpus]
        log_ranges(axes, groups, series, ylabel="seconds on the device (logarithmic)", room=4)
        axes.legend(fontsize=8, loc="upper left")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The savings of the average and the slowest client, and the server's time."""
    return [_relief(dataset, own) for dataset, own in by(rows, "dataset").items()]


def _relief(dataset: str, rows: Rows) -> Verdict:
    one, two = (where(rows, method=name) for name in METHODS)
    mean, slowest = (end([_busy(row) for row in two]) / end([_busy(row) for row in one]) for end in (fmean, max))
    decrypts = fmean(row["decrypt"] for row in one) / fmean(_busy(row) for row in one)
    return Verdict(
        f"{dataset}: decryption by the key server relieves the clients, the slowest most of all",
        f"a client's time is {mean:.0%} of Algorithm 1's, the slowest client's {slowest:.0%}; decryption is "
        f"{decrypts:.0%} of a client's time under Algorithm 1; a round takes {number(one[0]['round_seconds'])} "
        f"and {number(two[0]['round_seconds'])} s, of which the server {number(one[0]['server_seconds'])} and "
        f"{number(two[0]['server_seconds'])} s; reproduced: at most {RELIEVED:.0%}",
        graded(max(mean, slowest) <= RELIEVED),
    )


ITEM = Item("two-servers", "Clients that decrypt against a key server that does", "Appendix I", cells, draw, judge)
