"""Parts of all charts: colours (`--…` names of the style sheet), scales, axes, tooltips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sensecrypt.report.figures import Spec, Table
from sensecrypt.report.tables import column

CLUSTERS = tuple(f"--series-{place}" for place in range(8))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
RAMP = {"domain": [0, 1], "range": ["--ramp-0", "--ramp-1", "--ramp-2"], "interpolate": "lab"}


def series(names: Sequence[Any], noun: str = "") -> list[tuple[str, str]]:
    """A legend: a colour per name."""
    return [(f"{noun} {name}".strip(), CLUSTERS[place % len(CLUSTERS)]) for place, name in enumerate(names)]


def plain(**parts: Any) -> Spec:
    """A chart as wide as its container."""
    return {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}, **parts}


def colours(field: str, names: Sequence[Any]) -> Spec:
    """A colour per name, as in the legend."""
    return {"field": field, "type": "nominal", "legend": None, "scale": cycle(names, CLUSTERS)}


def round_axis(table: Table, most: int = 12) -> Spec:
    """An axis of rounds with at most `most` whole numbers."""
    first, last = min(column(table, "round"), default=0), max(column(table, "round"), default=0)
    ticks = list(range(first, last + 1, max(1, math.ceil((last + 1 - first) / most))))
    domain = [first, last] if first < last else [first - 0.5, first + 0.5]
    axis = {"format": "d", "values": ticks, "labelOverlap": True}
    return {
        "field": "round",
        "type": "quantitative",
        "title": "round",
        "axis": axis,
        "scale": {"domain": domain, "nice": False},
    }


def ordinal(field: str) -> Spec:
    """One position per value, with labels where they fit."""
    return {
        "field": field,
        "type": "ordinal",
        "axis": {"labelAngle": 0, "labelOverlap": True, "ticks": False, "domain": False},
    }


def heat(field: str) -> Spec:
    """A share as a colour."""
    return {"field": field, "type": "quantitative", "legend": None, "scale": RAMP}


def cycle(names: Sequence[Any], values: Sequence[Any]) -> Spec:
    """A value per name; values repeat if there are fewer than names."""
    return {"domain": list(names), "range": [values[place % len(values)] for place in range(len(names))]}


def tip(field: str, form: str = "", title: str = "") -> Spec:
    """A line of a tooltip."""
    known = {"type": "quantitative", "format": form} if form else {"type": "nominal"}
    return {"field": field, "title": title or field, **known}


def height_of(rows: int, step: int = 17) -> int:
    """Pixels for this number of rows; rows are thinner if there are many."""
    step = max(step, 24) if rows <= 10 else step
    return rows * max(5, min(step, 30 * step // max(rows, 1)))
