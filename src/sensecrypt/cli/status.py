"""The progress of a long command: one line on standard error, redrawn without a thread.

Worker processes are forked meanwhile, which is safe only in a process without other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn


@contextmanager
def shown_status(text: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show `text` on a terminal until the end; the yielded function replaces it."""
    console = console or Console(stderr=True)
    column = TextColumn("{task.description}")
    off = not console.is_terminal
    with Progress(column, console=console, transient=True, auto_refresh=False, disable=off) as progress:
        line = progress.add_task(text, total=None)
        progress.refresh()

        def update(now: str) -> None:
            progress.update(line, description=now, refresh=True)

        yield update
