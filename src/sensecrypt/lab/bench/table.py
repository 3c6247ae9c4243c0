"""Rows, reports and tables of benchmarks. A report is the JSON object that `--json` prints; tables show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Report = dict[str, Any]
Column = tuple[str, str | Callable[[Any], str]]


@dataclass(frozen=True)
class Table:
    """A table of texts, with one heading per column."""

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


Shown = Table | str  # a table, or a sentence


def described(title: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table with one line per row.

    A column has a heading and gives its cell as a function of the row, or as `key:format`; None becomes an empty cell.
    """
    return Table(title, [heading for heading, _ in columns], [[_cell(row, of) for _, of in columns] for row in rows])


def _cell(row: Mapping[str, Any], of: str | Callable[[Any], str]) -> str:
    if not isinstance(of, str):
        return of(row)
    name, _, form = of.partition(":")
    return "" if row[name] is None else format(row[name], form)


def milliseconds(name: str) -> Callable[[Any], str]:
    """A value in seconds, as milliseconds."""
    return lambda row: _digits(1e3 * row[name])


def ratio(name: str, reference: float) -> Column:
    """A column of ratios of a value to a reference."""
    return "ratio", lambda row: _digits(row[name] / reference)


def _digits(value: float) -> str:
    """Three digits, or all of the whole number."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
