"""Measures an item and saves its rows; after an interruption, finished cells are not repeated."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sensecrypt._version import __version__
from sensecrypt.errors import InvalidInput
from sensecrypt.files import make_folder, write_whole
from sensecrypt.lab.experiments.item import Item, Row
from sensecrypt.lab.experiments.saved import ROWS, Saved, finite, read_rows, write_rows
from sensecrypt.lab.experiments.specs import Scaled

OnCell = Callable[[str, float], None]
_PACKAGES = ("torch", "numpy", "gmpy2", "phe", "tenseal", "matplotlib")


def measured_already(folder: Path, scaled: Scaled) -> Saved | None:
    """The rows in `folder`, if they were measured with exactly these settings."""
    if not (folder / ROWS).exists():
        return None
    saved = read_rows(folder)
    return saved if (saved.scale, saved.settings) == (scaled.scale, _plain(scaled.settings)) else None


def measure(item: Item, scaled: Scaled, folder: Path, *, on_cell: OnCell | None = None) -> Saved:
    """Measure all cells that are not saved yet, and save the rows in `folder`; a subfolder has the finished cells.

    `on_cell` is called before each cell with its name and the estimated seconds of the cells before it.
    """
    cells = item.cells(scaled.settings)
    names = [cell.name for cell in cells]
    if not cells or len(set(names)) != len(names):
        raise InvalidInput(item.id, "has no cells, or two with one name", "correct its settings")
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
    """Settings as they are after a round trip through JSON."""
    plain: dict[str, object] = json.loads(json.dumps(settings))
    return plain


def machine() -> dict[str, str]:
    """Processors, memory and versions; nothing that names the machine or its user."""
    facts = {"processor": _processor(), "cores": str(os.cpu_count()), "memory": _memory(), "system": platform.system()}
    facts |= {"python": platform.python_version(), "sensecrypt": __version__}
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    return facts


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"
