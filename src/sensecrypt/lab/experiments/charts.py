"""The kinds of charts that items draw, on axes that `sensecrypt.lab.drawing` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

import numpy as np
import numpy.typing as npt

from sensecrypt.lab.drawing import Axes, colour_of, log_axis, number

Range = tuple[float, float, float]


def lines(
    axes: Axes,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    xlabel: str,
    ylabel: str,
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> None:
    """A line a name, with a marker at every point; `bands` are the lower and upper ends of the shade around a line."""
    for place, (name, (x, y)) in enumerate(series.items()):
        axes.plot(x, y, color=colour_of(place), marker="o" if len(x) <= 15 else "", markersize=4, label=name)
        if bands is not None and name in bands:
            axes.fill_between(x, *bands[name], color=colour_of(place), alpha=0.2, linewidth=0)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(visible=True)
    axes.legend(fontsize=8)


def ranges(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Range]], *, ylabel: str) -> None:
    """For each group and name, a bar at the mean with a whisker from the least to the greatest: (least, mean, most)."""
    wide = 0.8 / max(len(series), 1)
    for place, (name, values) in enumerate(series.items()):
        at = np.arange(len(groups)) + (place - (len(series) - 1) / 2) * wide
        least, mean, most = (np.array([value[end] for value in values]) for end in range(3))
        whiskers = np.maximum([mean - least, most - mean], 0.0)
        axes.bar(at, mean, 0.92 * wide, color=colour_of(place), label=name)
        axes.errorbar(at, mean, yerr=whiskers, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(ylabel)
    axes.grid(axis="y")
    axes.legend(fontsize=8)


def bars(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float]], *, ylabel: str) -> None:
    """For each group a bar a name, its value written above it."""
    wide = 0.8 / max(len(series), 1)
    for place, (name, values) in enumerate(series.items()):
        at = np.arange(len(groups)) + (place - (len(series) - 1) / 2) * wide
        drawn = axes.bar(at, values, 0.92 * wide, color=colour_of(place), label=name)
        axes.bar_label(drawn, [number(value) for value in values], fontsize=7, padding=1)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(ylabel)
    axes.grid(axis="y")
    if len(series) > 1:
        axes.legend(fontsize=8)


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
    """A square a value, NaN white; with `write`, the value in words on it."""
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
    """`ranges` on a logarithmic axis that goes up to `room` times the largest value: the legend stands there."""
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
    """A figure of each pair of clients as a heat map, every fourth client named."""
    heat_map(axes, matrix, label=label, low=low, high=high)
    ticks = range(0, len(np.asarray(matrix)), 4)
    for place in (axes.set_xticks, axes.set_yticks):
        place(ticks, [str(tick + 1) for tick in ticks])
    axes.set(title=title, xlabel="client", ylabel="client")
