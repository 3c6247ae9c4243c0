"""Charts with one or several bars per method."""

from __future__ import annotations

from collections.abc import Sequence

from sensecrypt.report.figures import Chart, Table
from sensecrypt.report.tables import column
from sensecrypt.report.vega import colours, plain, series

_LINES = "split(replace(replace(datum.label, ' (', '|('), ', ', ',|'), '|')"


def method_bars(name: str, title: str, says: str, fields: Sequence[str], axis: str, tables: dict[str, Table]) -> Chart:
    """One or several bars per method, with their values."""
    names, shares = column(tables["methods"], "method"), axis == "share"
    longest = max(value for field in fields for value in column(tables["methods"], field))
    form = ".0%" if shares else ",.3~r"
    thick = 48 if len(fields) > 1 else 44
    place = {
        "y": {
            "field": "method",
            "type": "nominal",
            "title": None,
            "sort": names,
            "axis": {"labelExpr": _LINES, "labelLimit": 190, "ticks": False, "domain": False},
        },
        "x": {
            "field": "value",
            "type": "quantitative",
            "title": axis,
            "axis": {"format": form, **({"values": [0, 0.25, 0.5, 0.75, 1]} if shares else {"tickCount": 6})},
            "scale": {"domain": [0, 1.3 * longest or 1], "nice": False},
        },
    }
    if len(fields) > 1:
        place["yOffset"] = {"field": "what", "type": "nominal", "sort": list(fields)}
    tooltip = [{"field": each, "type": "nominal"} for each in ("method", "what")]
    text = {"field": "value", "type": "quantitative", "format": form}
    return Chart(
        name,
        title,
        says,
        "methods",
        plain(
            height=len(names) * thick,
            transform=[{"fold": list(fields), "as": ["what", "value"]}],
            layer=[
                {
                    "mark": {"type": "bar"},
                    "encoding": {
                        **place,
                        "color": colours("what", fields) if len(fields) > 1 else colours("method", names),
                        "tooltip": [*tooltip, {**text, "title": axis}],
                    },
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 12, "color": "--text"},
                    "encoding": {**place, "text": text},
                },
            ],
        ),
        legend=series(fields) if len(fields) > 1 else (),
    )
