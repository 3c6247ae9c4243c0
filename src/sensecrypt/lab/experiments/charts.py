"""The charts of items, on axes of `sensecrypt.lab.drawing`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.lab.drawing import Axes, Figure, colour_of, log_axis, number, sheet
from sensecrypt.lab.experiments.item import Rows
from sensecrypt.lab.experiments.picking import Range, by


def panel_each(
    rows: Rows, key: str, title: str, *, width: float = 5.4, height: float = 4.4, least: float = 7.5
) -> tuple[Figure, list[tuple[Axes, Rows]]]:
    """A figure with panels side by side, one per value of a column, titled by it; and each panel's rows."""
    groups = by(rows, key)
    size = (max(width * len(groups), least), height)
    figure, panels = sheet(title, panels=len(groups), size=size, columns=len(groups))
    for axes, name in zip(panels, groups, strict=True):
        axes.set_title(name)
    return figure, list(zip(panels, groups.values(), strict=True))


def lines(
    axes: Axes,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    xlabel: str,
    ylabel: str,
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> None:
    """Draw one line per name, with a marker at every point, and a shade between the two ends in `bands`."""
    for place, (name, (x, y)) in enumerate(series.items()):
        axes.plot(x, y, color=colour_of(place), marker="o" if len(x) <= 15 else "", markersize=4, label=name)
        if bands is not None and name in bands:
            axes.fill_between(x, *bands[name], color=colour_of(place), alpha=0.2, linewidth=0)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(visible=True)
    axes.legend(fontsize=8)


def ranges(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Range]], *, ylabel: str) -> None:
    """Draw a bar at each mean, per group and name, with a whisker from the least to the largest value."""
    for name, at, wide, colour in _places(axes, groups, series, ylabel):
        least, mean, most = (np.array([value[end] for value in series[name]]) for end in range(3))
        whiskers = np.maximum([mean - least, most - mean], 0.0)
        axes.bar(at, mean, wide, color=colour, label=name)
        axes.errorbar(at, mean, yerr=whiskers, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axes.legend(fontsize=8)


def bars(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float]], *, ylabel: str) -> None:
    """Draw one bar per group and name, its value written above it."""
    for name, at, wide, colour in _places(axes, groups, series, ylabel):
        drawn = axes.bar(at, series[name], wide, color=colour, label=name)
        axes.bar_label(drawn, [number(value) for value in series[name]], fontsize=7, padding=1)
    if len(series) > 1:
        axes.legend(fontsize=8)


def _places(
    axes: Axes, groups: Sequence[str], series: Mapping[str, object], ylabel: str
) -> Iterator[tuple[str, npt.NDArray[np.floating[Any]], float, str]]:
    """Label the groups; yields the name of each series, and the positions, width and colour of its bars."""
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(ylabel)
    axes.grid(axis="y")
    wide = 0.8 / max(len(series), 1)
    for place, name in enumerate(series):
        yield name, np.arange(len(groups)) + (place - (len(series) - 1) / 2) * wide, 0.92 * wide, colour_of(place)


def heat_map(
    axes: Axes,
    values: npt.ArrayLike,
    *,
    xticks: Sequence[str] = (),
    yticks: Sequence[str] = (),
    label: str = "",
    write: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> None:
    """Draw one square per value, NaN white; with `write`, the value as text on it."""
    matrix = np.asarray(values, dtype=np.float64)
    colours = import_module("matplotlib").colormaps["viridis"].with_extremes(bad="white")
    image = axes.imshow(matrix, cmap=colours, aspect="auto", vmin=low, vmax=high)
    axes.figure.colorbar(image, ax=axes, label=label, shrink=0.85)
    if xticks:
        axes.set_xticks(range(len(xticks)), list(xticks))
    if yticks:
        axes.set_yticks(range(len(yticks)), list(yticks))
    if write:
        middle = float(np.mean(image.get_clim()))
        for (row, column), value in np.ndenumerate(matrix):
            if not np.isnan(value):
                dark = value < middle
                axes.text(column, row, number(value), ha="center", va="center", fontsize=7, color="w" if dark else "k")


def log_ranges(
    axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Range]], *, ylabel: str, room: float
) -> None:
    """Draw `ranges` on a logarithmic axis up to `room` times the largest value, which leaves room for the legend."""
    values = [value for each in series.values() for three in each for value in three]
    log_axis(axes, "y", values)
    axes.set_ylim(top=max(values) * room)
    ranges(axes, groups, series, ylabel=ylabel)


def client_map(
    axes: Axes,
    matrix: npt.ArrayLike,
    title: str,
    *,
    label: str = "",
    low: float | None = None,
    high: float | None = None,
) -> None:
    """Draw one figure per pair of clients as a heat map, with every fourth client labelled."""
    heat_map(axes, matrix, label=label, low=low, high=high)
    ticks = range(0, len(np.asarray(matrix)), 4)
    for place in (axes.set_xticks, axes.set_yticks):
        place(ticks, [str(tick + 1) for tick in ticks])
    axes.set(title=title, xlabel="client", ylabel="client")
