"""What a benchmark shows: tables, each described once by its columns, and sentences between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Column = tuple[str, str | Callable[[Any], str]]


@dataclass(frozen=True)
class Table:
    """Texts in lines, a heading per column."""

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


Shown = Table | str  # a table, or a sentence


def described(title: str, columns: Sequence[Column], rows: Sequence[object]) -> Table:
    """A table of rows.

    Args:
        title: above it.
        columns: the heading of each, and what stands in a row: a function's answer, or `attribute:format`; nothing for
            an attribute that is None.
        rows: one per line.
    """
    return Table(title, [heading for heading, _ in columns], [[_cell(row, of) for _, of in columns] for row in rows])


def _cell(row: object, of: str | Callable[[Any], str]) -> str:
    if not isinstance(of, str):
        return of(row)
    name, _, form = of.partition(":")
    value = getattr(row, name)
    return "" if value is None else format(value, form)


def milliseconds(name: str) -> Callable[[Any], str]:
    """An attribute in seconds, as milliseconds."""
    return lambda row: f"{1e3 * getattr(row, name):.2f}"


def ratio(name: str, reference: float) -> Column:
    """A column of ratios of an attribute to a reference."""
    return "ratio", lambda row: f"{getattr(row, name) / reference:.2f}"
