"""Rows picked by their values, and figures of those: what drawing and judging begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sensecrypt.lab.drawing import Axes, Figure, sheet
from sensecrypt.lab.experiments.charts import Range
from sensecrypt.lab.experiments.item import Rows


def where(rows: Rows, **wanted: object) -> list[Mapping[str, Any]]:
    """The rows that have these values in these columns, compared in this order."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def distinct(rows: Rows, key: str) -> list[Any]:
    """The values of a column, each once, in the order of the rows."""
    return list(dict.fromkeys(row[key] for row in rows))


def mean(rows: Rows, key: str, weight: str = "") -> float:
    """The mean of a column, weighted by another one if it is named."""
    values = [row[key] for row in rows]
    return float(np.average(values, weights=[row[weight] for row in rows]) if weight else np.mean(values))


def span(values: Sequence[float]) -> Range:
    """The least, the mean and the largest of some values."""
    return min(values), float(np.mean(values)), max(values)


def of_each(values: Sequence[float]) -> str:
    """Values with two digits, one after the other."""
    return " ".join(f"{value:.2f}" for value in values)


def panel_each(rows: Rows, key: str, title: str) -> tuple[Figure, list[tuple[Axes, Rows]]]:
    """A figure with a panel per value of a column, named after it, and the rows of each."""
    names = distinct(rows, key)
    figure, panels = sheet(title, panels=len(names), size=(max(5.4 * len(names), 7.5), 4.4))
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(name)
    return figure, [(axes, where(rows, **{key: name})) for axes, name in zip(panels, names, strict=True)]
