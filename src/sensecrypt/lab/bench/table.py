"""What a benchmark shows: tables, each described once by its columns, and sentences between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: above it.
        of: the name of a row's attribute, or a function of the row.
        form: a format specification; empty: as text.
        scale: numbers are multiplied by it.
    """

    title: str
    of: str | Callable[[Any], Any]
    form: str = ""
    scale: float = 1

    def cell(self, row: object) -> str:
        """What stands in a row; nothing for None."""
        value = getattr(row, self.of) if isinstance(self.of, str) else self.of(row)
        if value is None or isinstance(value, str):
            return value or ""
        return format(value * self.scale if self.scale != 1 else value, self.form)


@dataclass(frozen=True)
class Table:
    """Rows and their columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]

    @property
    def titles(self) -> list[str]:
        """Of the columns."""
        return [column.title for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """Line by line."""
        return [[column.cell(row) for column in self.columns] for row in self.rows]


Shown = Table | str  # a table, or a sentence


def milliseconds(title: str, of: str) -> Column:
    """A column of seconds, in milliseconds."""
    return Column(title, of, ".2f", 1e3)


def against(of: str, reference: float) -> Column:
    """A column of ratios."""
    return Column("ratio", of, ".2f", 1 / reference)
