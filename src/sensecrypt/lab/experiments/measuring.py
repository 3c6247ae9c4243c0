"""An item from its first cell to its saved rows; what was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sensecrypt.errors import InvalidInput
from sensecrypt.files import make_folder, write_whole
from sensecrypt.lab.experiments.item import Item, Row
from sensecrypt.lab.experiments.machine import machine
from sensecrypt.lab.experiments.saved import ROWS, Saved, finite, read_rows, write_rows
from sensecrypt.lab.experiments.specs import Scaled

OnCell = Callable[[str, float], None]


def measured_already(folder: Path, scaled: Scaled) -> Saved | None:
    """What is in `folder`, if it was measured with these very settings."""
    if not (folder / ROWS).exists():
        return None
    saved = read_rows(folder)
    return saved if (saved.scale, saved.settings) == (scaled.scale, _plain(scaled.settings)) else None


def measure(item: Item, scaled: Scaled, folder: Path, *, on_cell: OnCell | None = None) -> Saved:
    """Measure all cells that are not there yet, and keep the rows.

    Args:
        item: what to measure.
        scaled: with which settings.
        folder: where rows go; a subfolder holds what is done so far.
        on_cell: told each cell's name before it starts, and how many seconds of the estimate are done.
    """
    cells = item.cells(scaled.settings)
    names = [cell.name for cell in cells]
    if not cells or len(set(names)) != len(names):
        raise InvalidInput(item.id, "has no cells, or two of a name", "mend its settings")
    mark = hashlib.sha256(json.dumps([scaled.scale, scaled.settings], sort_keys=True).encode()).hexdigest()[:12]
    work = folder / "unfinished" / mark
    make_folder(work)
    rows: list[Row] = []
    spent = done = 0.0
    for cell in cells:
        if on_cell is not None:
            on_cell(cell.name, done)
        kept = work / f"{cell.name}.json"
        if kept.exists():
            part = json.loads(kept.read_text())
        else:
            start = time.perf_counter()
            own = work / cell.name
            own.mkdir(exist_ok=True)
            part = {"rows": finite(cell.measure(own)), "seconds": time.perf_counter() - start}
            write_whole(kept, json.dumps(part, allow_nan=False).encode())
            shutil.rmtree(own)
        rows += part["rows"]
        spent += part["seconds"]
        done += cell.seconds
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    settings = _plain(scaled.settings)
    saved = Saved(item.id, scaled.scale, settings, list(scaled.differs), machine(), day, round(spent, 1), rows)
    write_rows(folder, saved)
    shutil.rmtree(folder / "unfinished")
    return saved


def _plain(settings: dict[str, object]) -> dict[str, object]:
    """Settings as they read from JSON."""
    plain: dict[str, object] = json.loads(json.dumps(settings))
    return plain
