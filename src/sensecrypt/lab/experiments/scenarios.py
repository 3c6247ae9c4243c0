"""The main evaluation: time, accuracy and communication of all methods in the paper's three scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from sensecrypt.config import RunConfig
from sensecrypt.lab.compare.comparison import compare
from sensecrypt.lab.compare.scenarios import scenario_settings
from sensecrypt.lab.drawing import Axes, Figure, colour_of, legend, log_axis, number, sheet
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec
from sensecrypt.lab.experiments.scenario_claims import judge
from sensecrypt.lab.experiments.scenario_rows import (
    DEFAULT_PART,
    METHODS,
    PAPER_PART,
    READINGS,
    SYSTEM,
    WAYS,
    Found,
    chance,
    methods_of,
)
from sensecrypt.methods import Method, parse_methods

_TRAINING = {"cifar-10": 13.0, "fashion-mnist": 1.0}  # seconds of one epoch of all clients
_ENCRYPTING = {"cifar-10": 75.0, "fashion-mnist": 32.0}  # seconds to encrypt all clients' whole models

_TOTALS = (
    *("device_seconds", "device_seconds_ours", "setup_seconds", "encrypted_share", "union_share", "accuracy_mean"),
    "under_covered_share",
    *("bytes_up", "bytes_down", "clusters", "crypto", "implementation"),
)


class _Calibrated(Method):
    """A method with calibrated encryption, whatever the mode of the others."""

    def configure(self, common: dict[str, Any], crypto: str) -> RunConfig:  # noqa: ARG002 (the mode of the others)
        """The configuration of the run."""
        return super().configure(common, "calibrated")


def cells(spec: Spec) -> list[Cell]:
    """Comparisons per scenario and data set: the paper's methods, its other readings, our default preset."""
    found = []
    parts = (PAPER_PART, *READINGS, DEFAULT_PART)
    for (place, dataset), scenario, part in product(enumerate(spec["datasets"]), spec["scenarios"], parts):
        seconds = _seconds(spec, scenario, place, part)
        found.append(Cell(f"{scenario}-{dataset}-{part}", seconds, partial(_measure, spec, scenario, place, part)))
    return found


def _rounds(spec: Spec, place: int, part: str) -> int:
    key = {PAPER_PART: "rounds", DEFAULT_PART: "default_rounds"}.get(part, "reading_rounds")
    return int(spec[key][place])


def _seconds(spec: Spec, scenario: str, place: int, part: str) -> float:
    dataset, epochs, rounds = spec["datasets"][place], spec["local_epochs"][place], _rounds(spec, place, part)
    trains = part in (PAPER_PART, DEFAULT_PART)  # other readings start from the same models
    trained = (1 if scenario == SYSTEM else 2) if trains else 0  # clusters train other models
    real = rounds * _ENCRYPTING[dataset] if _is_real(spec, scenario, dataset) and part == DEFAULT_PART else 0.0
    return float(15.0 + rounds * (trained * (epochs + 1) * _TRAINING[dataset] + 5.0) + real)


def _is_real(spec: Spec, scenario: str, dataset: str) -> bool:
    return f"{scenario}-{dataset}" in spec["real"]


def _measure(spec: Spec, scenario: str, place: int, part: str, folder: Path) -> list[Row]:
    dataset, epochs, rounds = spec["datasets"][place], spec["local_epochs"][place], _rounds(spec, place, part)
    explicit = {"rounds": rounds, "local_epochs": epochs, "seed": spec["seed"], "clients": spec["clients"]}
    settings = scenario_settings(scenario, dataset, explicit)
    methods = methods_of(part)
    chosen = parse_methods(",".join(methods.values()), "default")
    if part == DEFAULT_PART:
        if not _is_real(spec, scenario, dataset):
            chosen[1] = _Calibrated(**vars(chosen[1]))
        chosen[2] = _Calibrated(**vars(chosen[2]))  # the same ciphertexts, prepared earlier
    # Training does not depend on devices: scenarios and readings share it.
    training = folder.parent / f"training-{dataset}"
    report = compare(scenario, chosen, settings, folder, resume=True, training=training)
    rows: list[Row] = []
    for method, row in zip(methods, report["rows"], strict=True):
        where: Row = {"scenario": scenario, "dataset": dataset, "part": part, "method": method}
        rows += [{**where, **each} for each in row["rounds"]]
        totals = {key: row[key] for key in _TOTALS}
        rows.append({**where, "round": None, "rounds": rounds, "clients": report["clients"], **totals})
    return rows


def draw(rows: Rows) -> Figure:
    """One row of panels per scenario: training time, accuracy on each data set, communication."""
    found = Found(rows)
    across, datasets = 2 + len(found.datasets), found.datasets
    size = (3.4 * across, 3.1 * len(found.scenarios) + 0.8)
    title = "Training time, accuracy and communication in each scenario"
    figure, panels = sheet(title, panels=across * len(found.scenarios), size=size, columns=across)
    seconds = [found.total(place, name) for place in found.places for name in METHODS]
    sent = [found.sent(place, name, way) for place in found.places for name in METHODS for way in WAYS]
    for line, scenario in enumerate(found.scenarios):
        first, *middle, last = panels[line * across : (line + 1) * across]
        times = {name: [found.total((scenario, each), name) for each in datasets] for name in METHODS}
        _columns(first, datasets, times, seconds)
        first.set(title=f"{scenario}:\ntraining time", ylabel="device seconds, all rounds")
        for axes, dataset in zip(middle, datasets, strict=True):
            _accuracy(axes, {name: found.rounds((scenario, dataset), name) for name in METHODS}, chance(scenario))
            axes.set_title(f"{scenario}:\naccuracy, {dataset}")
        up, down = (
            {name: [found.sent((scenario, each), name, way) for each in datasets] for name in METHODS} for way in WAYS
        )
        _columns(last, datasets, up, sent, lines=down)
        last.set(title=f"{scenario}: communication\n(bar: up; black line: down)", ylabel="MB per round, all clients")
    legend(figure, {name: (colour_of(place), False) for place, name in enumerate(METHODS)})
    return figure


def _columns(
    axes: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    every: Sequence[float],
    *,
    lines: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Draw upright bars on a logarithmic axis that all scenarios share, each with its value above it."""
    log_axis(axes, "y", every)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.25)  # room for the values
    wide = 0.84 / len(series)
    for place, (name, values) in enumerate(series.items()):
        for group, value in enumerate(values):
            x = group + (place - (len(series) - 1) / 2) * wide
            axes.bar(x, value, 0.9 * wide, color=colour_of(place))
            top = value
            if lines is not None:
                axes.hlines(lines[name][group], x - wide / 2, x + wide / 2, color="black", linewidth=1.6)
                top = max(value, lines[name][group])
            above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "rotation": 90}
            axes.annotate(number(value), (x, top), (0, 3), size=8, **above)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.grid(axis="y")


def _accuracy(axes: Axes, courses: Mapping[str, Sequence[Mapping[str, Any]]], guess: float) -> None:
    """Draw the clients' mean with a shade from worst to best; methods with the same models share a line."""
    drawn: dict[tuple[float, ...], list[str]] = {}
    for name, course in courses.items():
        drawn.setdefault(tuple(row["accuracy_mean"] for row in course), []).append(name)
    for names in drawn.values():
        course, colour = courses[names[0]], colour_of(list(courses).index(names[0]))
        rounds = [row["round"] + 1 for row in course]
        least, mean, most = ([100 * row[f"accuracy_{end}"] for row in course] for end in ("min", "mean", "max"))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        axes.plot(rounds, mean, color=colour, marker="o", markersize=4, label=f"{names[0]}{more}")
        if len(rounds) > 1:
            axes.fill_between(rounds, least, most, color=colour, alpha=0.18, linewidth=0)
        else:
            axes.vlines(rounds, least, most, color=colour, alpha=0.3, linewidth=8)  # a shade needs two rounds
    axes.axhline(100 * guess, color="black", linestyle=":", linewidth=1.2, label="one answer for all")
    axes.set(xlabel="round", ylabel="accuracy, %", ylim=(0, 150), yticks=range(0, 101, 20))  # room for the legend
    axes.locator_params(axis="x", nbins=6, integer=True, min_n_ticks=1)
    axes.grid(visible=True)
    axes.legend(fontsize=8, loc="upper left")


ITEM = Item(
    "scenarios",
    "Methods in three scenarios: time, accuracy, communication",
    "Performance in heterogeneity scenarios",
    cells,
    draw,
    judge,
)
