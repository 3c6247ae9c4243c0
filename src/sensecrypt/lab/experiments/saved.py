"""The measurements of an item on disk: rows with their settings as JSON, the same rows as CSV, and the picture."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput
from sensecrypt.files import write_whole
from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments.item import Item, Row, Verdict

VERSION = 1
ROWS, TABLE, PICTURE = "rows.json", "rows.csv", "figure.png"


@dataclass(frozen=True)
class Saved:
    """One measured item."""

    item: str  # its id
    scale: str  # `quick` or `full`
    settings: dict[str, Any]  # of the measurement
    differs: list[str]  # how it differs from the paper's
    machine: dict[str, str]  # processor, memory and versions
    day: str  # of the measurement, as year-month-day
    seconds: float  # how long it took
    rows: list[Row]  # the measurements


def write_rows(folder: Path, saved: Saved) -> None:
    """Save the rows, as JSON and as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"version": VERSION, **asdict(saved)}
    write_whole(folder / ROWS, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
    write_whole(folder / TABLE, _csv(saved.rows).encode())


def read_rows(folder: Path) -> Saved:
    """The rows in a folder."""
    path = folder / ROWS
    try:
        document = json.loads(path.read_text())
        made_by = document.pop("version")
        saved = Saved(**document) if made_by == VERSION else None
    except OSError:
        raise InvalidInput(str(folder), "holds no rows", f"measure them: sensecrypt reproduce {folder.name}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidInput(str(path), "is damaged", "delete it and measure again") from None
    if saved is None:
        raise InvalidInput(str(path), f"is of version {made_by}", "use the version that made it, or measure again")
    return saved


def finite(rows: list[Row]) -> list[Row]:
    """Rows as JSON can hold them: infinite numbers and NaN become None."""
    return [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]


def draw(folder: Path, item: Item, saved: Saved) -> Path:
    """Draw the picture from the rows alone; the same rows give the same bytes."""
    with style("figures"):
        image = to_png(_checked(item.draw, item, saved))
    return write_whole(folder / PICTURE, image)


def judge(item: Item, saved: Saved) -> list[Verdict]:
    """The verdicts, from the rows alone."""
    verdicts: list[Verdict] = _checked(item.judge, item, saved)
    return verdicts


def _checked(call: Any, item: Item, saved: Saved) -> Any:
    if not saved.rows:
        raise InvalidInput(item.id, "has no rows", f"measure them: sensecrypt reproduce {item.id}")
    try:
        return call(saved.rows)
    except (KeyError, StopIteration) as error:
        fix = f"measure again: sensecrypt reproduce {item.id} --again"
        raise InvalidInput(item.id, f"has rows that lack {error}", fix) from error


def _csv(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
