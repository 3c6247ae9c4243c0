"""Where commands write, and how a page is opened."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from pathlib import Path

import click

from sensecrypt.errors import InvalidInput

RUNS = Path("runs")


def new_folder(out: Path | None, name: str) -> Path:
    """The folder for new results; nothing in it is overwritten.

    Args:
        out: given by the user; None: `name` in ./runs, or in a temporary folder if ./runs cannot be written.
        name: of the folder.
    """
    if out is not None:
        if out.is_dir() and any(out.iterdir()):
            raise InvalidInput("--out", f"{out} holds other things", "choose a new folder, or an empty one")
        return out
    parent = RUNS if RUNS.exists() else Path()
    if parent.is_dir() and os.access(parent, os.W_OK):
        return RUNS / name
    place = Path(tempfile.mkdtemp(prefix="sensecrypt-")) / name
    click.echo(f"{RUNS.resolve()} cannot be written; results are in {place}", err=True)
    return place


def open_page(path: Path) -> bool:
    """Open a file in a graphical browser; False if there is none."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False
