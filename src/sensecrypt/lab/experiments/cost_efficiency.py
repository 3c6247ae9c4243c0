"""Training time with more uneven devices in each round ("Cost Efficiency under Varying Heterogeneity")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sensecrypt.lab.compare.scenarios import scenario_settings
from sensecrypt.lab.drawing import Figure, number
from sensecrypt.lab.experiments.charts import log_ranges, panel_each
from sensecrypt.lab.experiments.comparing import compared, run_settings
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import by, where

SCENARIO = "cost-efficiency"
METHODS = {
    "MaskCrypt": "maskcrypt@paper",
    "SenseCrypt": "sensecrypt@paper",
    "SenseCrypt, feasible": "sensecrypt@paper+normalise=feasible",
    "SenseCrypt, all": "sensecrypt@paper+normalise=all",
    "our default": "sensecrypt",
}
_SAYS = {
    "SenseCrypt": "SenseCrypt's times remain nearly static",
    "SenseCrypt, feasible": "the same if the objectives are normalised over feasible masks",
    "SenseCrypt, all": "the same if the objectives are normalised over all masks",
    "our default": "ours: the same under our default, which has a deadline?",
}
STATIC = 1.25  # times the first round's time: at most this is nearly static
NEARLY = 1.5  # at most this is static in shape
RISING = 1.5  # more than this is a significant rise
_SECONDS = {"cifar-10": (55.0, 90.0), "fashion-mnist": (6.0, 35.0)}  # one epoch in four rounds; everything else


def cells(spec: Spec) -> list[Cell]:
    """One comparison per data set."""
    return [
        Cell(name, spec["local_epochs"] * _SECONDS[name][0] + _SECONDS[name][1], partial(_measure, spec, name))
        for name in spec["datasets"]
    ]


def _measure(spec: Spec, dataset: str, folder: Path) -> list[Row]:
    settings = run_settings(spec)
    report = compared(SCENARIO, dataset, METHODS.values(), settings, folder, crypto=spec["crypto"])
    cpus = scenario_settings(SCENARIO, dataset, settings)["cpus"]
    return [
        {
            "dataset": dataset,
            "method": method,
            "round": each["round"] + 1,
            "cpus_min": min(cpus[each["round"]]),
            "cpus_max": max(cpus[each["round"]]),
            **{key: each[f"client_seconds_{key}"] for key in ("min", "mean", "max")},
            **{key: each[key] for key in ("encrypted_share", "encrypted_share_min")},
            **{key: row[key] for key in ("union_share", "crypto")},
        }
        for method, row in zip(METHODS, report["rows"], strict=True)
        for each in row["rounds"]
    ]


def draw(rows: Rows) -> Figure:
    """A bar at the clients' mean, a whisker from the fastest to the slowest; one panel per data set."""
    figure, panels = panel_each(rows, "dataset", "A client's time in a round: mean, fastest and slowest")
    for axes, own in panels:
        devices = {row["round"]: f"round {row['round']}\n{row['cpus_max']} to {row['cpus_min']} CPUs" for row in own}
        series = {name: [(row["min"], row["mean"], row["max"]) for row in _course(own, name)] for name in METHODS}
        log_ranges(axes, list(devices.values()), series, ylabel="seconds on the device (logarithmic)", room=6)
        axes.legend(fontsize=8, ncols=2, loc="upper left")
        axes.tick_params(axis="x", labelsize=8)
    return figure


def _course(rows: Rows, method: str) -> Rows:
    return sorted(where(rows, method=method), key=lambda row: int(row["round"]))


def judge(rows: Rows) -> list[Verdict]:
    """The growth of mean and spread from the first round to the last."""
    verdicts = []
    for dataset, own in by(rows, "dataset").items():
        mask, *others = (_course(own, name) for name in METHODS)
        mean, spread = _growth(mask), _spread(mask[-1]) / _spread(mask[0])
        verdicts += [
            Verdict(
                f"{dataset}: mean and fluctuation of MaskCrypt's times rise significantly",
                f"mean {_means(mask)}: {mean:.2f} times; slowest minus fastest {number(_spread(mask[0]))} to "
                f"{number(_spread(mask[-1]))} s: {number(spread)} times",
                graded(min(mean, spread) > RISING),
            ),
            *(_static(dataset, name, course) for name, course in zip(_SAYS, others, strict=True)),
        ]
    return verdicts


def _static(dataset: str, name: str, course: Rows) -> Verdict:
    """Whether a method's mean and slowest times are static; for our default this is beyond the paper."""
    growth, slowest = _growth(course), course[-1]["max"] / course[0]["max"]
    most = max(growth, slowest)
    return Verdict(
        f"{dataset}: {_SAYS[name]}",
        f"mean {_means(course)}: {growth:.2f} times, slowest {slowest:.2f} times; the least encrypted share is "
        f"{course[0]['encrypted_share_min']:.0%} in the first round and {course[-1]['encrypted_share_min']:.0%} in the "
        f"last; static: at most {STATIC} times, in shape: {NEARLY}",
        answer(True) if most < STATIC and name == "our default" else graded(most < STATIC, most < NEARLY),
    )


def _growth(course: Rows) -> float:
    return float(course[-1]["mean"] / course[0]["mean"])


def _spread(row: Mapping[str, Any]) -> float:
    return float(row["max"] - row["min"])


def _means(course: Rows) -> str:
    return ", ".join(number(row["mean"]) for row in course) + " s"


ITEM = Item(
    "cost-efficiency",
    "Training time under rising system heterogeneity",
    "Cost efficiency under varying heterogeneity degrees",
    cells,
    draw,
    judge,
)
