"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def show_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[str] = (),
    width: int = 120,
) -> None:
    """Print a table.

    Args:
        title: above it.
        columns: their headings.
        rows: a text per column.
        left: headings of the columns that hold words; numbers stand on the right.
        width: that it may take at least, however narrow the terminal is.
    """
    table = Table(title=escape(title), title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right")
    for row in rows:
        table.add_row(*map(escape, row))
    Console(width=max(width, Console().width)).print(table)
