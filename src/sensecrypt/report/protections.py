"""Parts of a comparison's page: what attackers find, and what each kind of device encrypts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from sensecrypt.report.figures import Chart, Column, Section, Table, tabled
from sensecrypt.report.methodbars import method_bars
from sensecrypt.report.tables import column
from sensecrypt.report.timeline import STEPS
from sensecrypt.report.vega import colours, plain, series

Row = Mapping[str, Any]

ATTACKED: tuple[Column, ...] = (
    ("found", "labels found", "share", itemgetter("found")),
    ("guessing", "found by guessing", "share", itemgetter("guessing")),
    ("strongest", "strongest attack", "text", itemgetter("strongest")),
    ("verdict", "attackers", "text", itemgetter("verdict")),
)


def attacked_section(report: Mapping[str, Any], tables: dict[str, Table]) -> Section:
    """What attackers find under each protection."""
    clients = report["attacked"]
    text = (
        f"Labels that the strongest attack finds in {clients['samples']} samples of a client, mean of "
        f"{clients['seeds']} clients that encrypt as much as the weakest device."
    )
    says = "Two bars per protection: labels found by the strongest attack, and by guessing."
    fields = ["found", "guessing"]
    chart = method_bars("attacks", "Labels found", says, fields, "share", tables)
    return Section("attacks", "What attackers find", text, [chart])


def device_table(rows: Sequence[Row]) -> Table:
    """Mean share and time of each kind of device in the last round."""
    columns: list[Column] = [
        ("device", "device", "text", "device"),
        ("method", "method", "text", "name"),
        ("encrypted", "encrypted", "share", "encrypted"),
        ("time", "device time, s", "number", "time"),
        ("bandwidth", "MB/s", "number", "bandwidth"),
    ]
    cells = []
    for row in rows:
        if row["encrypted_share"] == 0:
            continue
        for device in dict.fromkeys(client["device"] for client in row["timeline"]):
            own = [client for client in row["timeline"] if client["device"] == device]
            cells.append(
                {
                    "device": device,
                    "name": row["name"],
                    "encrypted": fmean(client["encrypted_share"] for client in own),
                    "time": fmean(
                        sum(client[step] for step in STEPS if step in client and step != "wait") for client in own
                    ),
                    "bandwidth": own[0]["bandwidth"],
                }
            )
    return tabled("Encrypted share and time of each kind of device, last round", columns, cells)


def device_section(report: Mapping[str, Any], tables: dict[str, Table]) -> Section:
    """What each kind of device encrypts."""
    table = tables["devices"]
    kinds, methods = (list(dict.fromkeys(column(table, name))) for name in ("device", "method"))
    place: dict[str, Any] = {
        "y": {"field": "device", "type": "nominal", "title": None, "sort": kinds, "axis": {"ticks": False}},
        "yOffset": {"field": "method", "type": "nominal", "sort": methods},
        "x": {
            "field": "encrypted",
            "type": "quantitative",
            "title": "encrypted share",
            "axis": {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]},
            "scale": {"domain": [0, 1.4], "nice": False},
        },
    }
    tooltip = [{"field": name, "type": "nominal"} for name in ("device", "method")] + [
        {"field": "encrypted", "type": "quantitative", "format": ".1%"},
        {"field": "time", "type": "quantitative"},
    ]
    chart = Chart(
        "devices",
        "Encrypted share of each device",
        "One bar per device and method that encrypts: mean encrypted share in the last round; behind it the device's "
        "own time.",
        "devices",
        plain(
            height=len(kinds) * max(24, 16 * len(methods)),
            transform=[
                {
                    "calculate": "datum.time < 1 ? format(1000 * datum.time, '.3~r') + ' ms' "
                    ": format(datum.time, '.3~r') + ' s'",
                    "as": "behind",
                }
            ],
            layer=[
                {
                    "mark": {"type": "bar"},
                    "encoding": {**place, "color": colours("method", methods), "tooltip": tooltip},
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11, "color": "--text"},
                    "encoding": {**place, "text": {"field": "behind", "type": "nominal"}},
                },
            ],
        ),
        legend=series(methods),
    )
    text = f"Last round; device time, without waiting. The server has {report['server_cpus']:g} CPUs."
    return Section("devices", "Who encrypts how much", text, [chart])
