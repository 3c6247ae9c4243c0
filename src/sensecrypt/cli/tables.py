"""Tables on the terminal: at least 80 columns wide, without a frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

WIDTH = 80
_LONGEST_NAME = 26


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
    lines = list(rows)
    for number, column in enumerate(columns):
        names = column in left and all(len(line[number]) <= _LONGEST_NAME for line in lines)
        side: Literal["left", "right"] = "left" if column in left else "right"
        table.add_column(escape(column), justify=side, overflow="fold", no_wrap=names)
    for row in lines:
        table.add_row(*(escape(text.replace("\N{NO-BREAK SPACE}", " ")) for text in row))  # ASCII terminals
    console = Console(width=width)
    needed = Measurement.get(console, console.options, table).minimum
    Console(width=max(width, needed)).print(table)  # a line that the terminal wraps is better than figures cut off
