"""Selects rows and summarises their columns, for pictures and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sensecrypt.lab.experiments.item import Rows

Range = tuple[float, float, float]  # least, mean (or median), largest


def where(rows: Rows, **wanted: object) -> list[Mapping[str, Any]]:
    """The rows that have these values in these columns."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def distinct(rows: Rows, key: str) -> list[Any]:
    """The different values of a column, in the order of the rows."""
    return list(dict.fromkeys(row[key] for row in rows))


def by(rows: Rows, key: str) -> dict[Any, list[Mapping[str, Any]]]:
    """The rows of each value of a column, in the order of the rows."""
    return {value: where(rows, **{key: value}) for value in distinct(rows, key)}


def mean(rows: Rows, key: str, weight: str = "") -> float:
    """The mean of a column, weighted by another column if one is named."""
    values = [row[key] for row in rows]
    return float(np.average(values, weights=[row[weight] for row in rows]) if weight else np.mean(values))


def span(values: Sequence[float]) -> Range:
    """The least, the mean and the largest of some values."""
    return min(values), float(np.mean(values)), max(values)


def of_each(values: Sequence[float]) -> str:
    """Values with two decimals, separated by spaces."""
    return " ".join(f"{value:.2f}" for value in values)


def pair_matrix(rows: Rows, key: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A column of rows about pairs (a, b) as a matrix; NaN where there is no row."""
    size = 1 + max(row["a"] for row in rows)
    matrix = np.full((size, size), np.nan)
    for row in rows:
        matrix[row["a"], row["b"]] = row[key]
    return matrix
