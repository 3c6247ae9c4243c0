"""Appendix C: under one mask for all, slow clients delay all others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sensecrypt.lab.drawing import Figure, sheet
from sensecrypt.lab.experiments.charts import bars
from sensecrypt.lab.experiments.comparing import compared, run_settings
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, graded
from sensecrypt.lab.experiments.picking import by

SIMILAR = 1.25  # times the fastest client's time


def cells(spec: Spec) -> list[Cell]:
    """One comparison: the training is the same for every budget."""
    return [Cell("budgets", 40.0 * spec["rounds"] * spec["local_epochs"], partial(_measure, spec))]


def _measure(spec: Spec, folder: Path) -> list[Row]:
    methods = [f"maskcrypt@paper+ratio={budget}" for budget in spec["budgets"]]
    report = compared("imbalance", spec["dataset"], methods, run_settings(spec), folder)
    return [
        {"budget": budget, "client": client["client"] + 1, "cpus": client["cpus"]}
        | {"he_seconds": client["encrypt"] + client["decrypt"]}
        for budget, row in zip(spec["budgets"], report["rows"], strict=True)
        for client in row["timeline"]
    ]


def draw(rows: Rows) -> Figure:
    """HE time of each client, budget by budget."""
    figure, [axes] = sheet("HE time of each client under one mask for all", panels=1, size=(9, 4.2))
    cpus = {row["client"]: row["cpus"] for row in rows}
    groups = [f"client {client}\n{each:g} CPUs" for client, each in cpus.items()]
    series = {f"{each:.0%} encrypted": [row["he_seconds"] for row in own] for each, own in by(rows, "budget").items()}
    bars(axes, groups, series, ylabel="seconds per round on the device")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The cost of the largest budget for the fastest and the slowest client."""
    low, high = (end(row["budget"] for row in rows) for end in (min, max))
    seconds = {(row["budget"], row["client"]): row["he_seconds"] for row in rows}
    fast, slow = (end(row["client"] for row in rows) for end in (min, max))
    first, last = (seconds[high, client] / seconds[low, client] for client in (fast, slow))
    gap_low, gap_high = (seconds[budget, slow] - seconds[budget, fast] for budget in (low, high))
    multiple = seconds[low, slow] / seconds[low, fast]
    return [
        Verdict(
            "at 10 % the clients' HE times are not significantly different",
            f"client {slow} takes {multiple:.1f} times client {fast}'s time at {low:.0%}: work is divided by CPUs; "
            f"similar: at most {SIMILAR:g} times, in shape: at most 2",
            graded(multiple <= SIMILAR, multiple <= 2),
        ),
        Verdict(
            "10 % to 90 %: the slowest client's HE time rises more than 10 times, the fastest's less than 5 times",
            f"{first:.1f} times (client {fast}) and {last:.1f} times (client {slow}): work is proportional to the mask "
            f"on every device",
            graded(last > 10 and first < 5),
        ),
        Verdict(
            "the larger the mask, the longer all clients wait for the slowest",
            f"slowest minus fastest: {gap_low:.0f} s at {low:.0%}, {gap_high:.0f} s at {high:.0%}; reproduced: twice "
            "as long",
            graded(gap_high > 2 * gap_low),
        ),
    ]


ITEM = Item("imbalance", "Imbalanced HE times of clients under one mask for all", "Appendix C", cells, draw, judge)
