"""What a long command is doing, in a line on standard error that is redrawn when it changes: by no thread.

Worker processes are forked while it is shown, which is safe only in a process without other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn


@contextmanager
def shown_status(text: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show `text` until the end, on a terminal; the function inside replaces it."""
    console = console or Console(stderr=True)
    column = TextColumn("{task.description}")
    off = not console.is_terminal
    with Progress(column, console=console, transient=True, auto_refresh=False, disable=off) as progress:
        line = progress.add_task(text, total=None)
        progress.refresh()

        def update(now: str) -> None:
            progress.update(line, description=now, refresh=True)

        yield update
