"""Tables on the terminal: at least 80 columns wide, without a frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDTH = 80


def show_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[str] = (),
) -> None:
    """Print a table.

    Args:
        title: above it.
        columns: their headings.
        rows: a text per column.
        left: headings of the columns that hold words; numbers stand on the right.
    """
    width = max(WIDTH, Console().width)
    if title:
        click.secho(click.wrap_text(title, width), bold=True)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for column in columns:
        table.add_column(escape(column), justify="left" if column in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(escape(text.replace("\N{NO-BREAK SPACE}", " ")) for text in row))  # ASCII terminals
    Console(width=width).print(table)
