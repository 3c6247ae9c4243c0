"""The page of a comparison: the methods side by side, and a link to the run of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput
from sensecrypt.methods import Method
from sensecrypt.report.charts import timeline_chart
from sensecrypt.report.figures import Card, Chart, Column, Page, Picker, Section, Table, tabled
from sensecrypt.report.tables import column, time_unit
from sensecrypt.report.timeline import ALWAYS
from sensecrypt.report.vega import DASHES, colours, cycle, plain, round_axis, series
from sensecrypt.report.words import count, megabytes, percent, seconds

FILE = "compare.json"
VERSION = 1
_LINES = "split(replace(replace(datum.label, ' (', '|('), ', ', ',|'), '|')"

Row = Mapping[str, Any]


def read_comparison(folder: Path) -> dict[str, Any]:
    """What a comparison wrote."""
    path = folder / FILE
    try:
        report = json.loads(path.read_text())
        version, rows = report["version"], report["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(str(path), "is not what a comparison writes", "run the comparison again") from None
    if version != VERSION:
        raise InvalidInput(str(path), f"is a comparison of version {version}", "use the version that made it")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and row.get("rounds") for row in rows):
        raise InvalidInput(str(path), "has no rows, or a row without rounds", "run the comparison again")
    return dict(report)


def run_folders(report: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """The folder of each method's run, by the method's name."""
    return {row["name"]: folder / Method(row["policy"], row["preset"], row["settings"]).slug for row in report["rows"]}


def comparison_page(report: Mapping[str, Any], folder: Path, *, links: bool = True) -> Page:
    """Everything that a comparison's file tells; `links` only where the pages of its runs are files beside it."""
    try:
        return _page(report, folder, links)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        problem = f"is not what a comparison writes ({type(error).__name__}: {error})"
        raise InvalidInput(str(folder / FILE), problem, "run the comparison again") from error


def _page(report: Mapping[str, Any], folder: Path, links: bool) -> Page:
    rows = report["rows"]
    names = [row["name"] for row in rows]
    tables = {"methods": _methods(rows), "curves": _curves(rows), "timeline": _timeline(rows)}
    chosen = Picker("Method", "method", [(name, name) for name in names], names[-1])
    accuracy = _accuracy_chart(tables["curves"], names)
    unit = time_unit(max(row["device_seconds"] for row in rows))[0]
    says = "A bar for each method: how long the whole training takes on the clients' devices."
    time = _bars("time", "Time of the training", says, ["time"], f"time on the devices, {unit}", tables)
    says = "Two bars for each method: what all clients send up, and what they receive."
    traffic = _bars("traffic", "Communication of the training", says, ["up", "down"], "MB, all clients", tables)
    says = "Two bars for each method: encrypted share of the parameters, and of their sensitivity."
    shares = _bars("shares", "Protection", says, ["encrypted", "covered"], "share", tables)
    sections = [
        Section("time", "Time", "The whole training on the clients' devices, one round after the other.", [time]),
        Section("accuracy", "Accuracy", "Mean of the clients, round by round.", [accuracy]),
        Section(
            "exposure",
            "Communication and protection",
            "What all clients send and receive; what is encrypted of the parameters, and of the sensitivity.",
            [traffic, shares],
        ),
        Section(
            "last-round",
            "Last round",
            "What each client did, and for how long it waited for slower ones.",
            [timeline_chart(tables["timeline"], picker=chosen)],
        ),
    ]
    size = f"{count(report['clients'], 'client')}, {count(report['rounds'], 'round')}"
    return Page(
        title=f"{count(len(rows), 'method')} on {report['dataset']}",
        subtitle=f"scenario {report['scenario']}, {report['model']}, {size}",
        state="over",
        told="over",
        cards=_cards(rows),
        findings=_findings(rows),
        sections=sections,
        tables=tables,
        links=_links(report, folder, links),
    )


def _methods(rows: Sequence[Row]) -> Table:
    unit, scale = time_unit(max(row["device_seconds"] for row in rows))
    columns: list[Column] = [
        ("method", "method", "text", "name"),
        ("time", f"time on the devices, {unit}", "number", lambda row: row["device_seconds"] * scale),
        ("waiting", "waiting for slower clients", "share", itemgetter("straggler_share")),
        ("up", "up, MB", "number", lambda row: row["bytes_up"] / 1e6),
        ("down", "down, MB", "number", lambda row: row["bytes_down"] / 1e6),
        *_ACCURACY,
        ("encrypted", "encrypted", "share", itemgetter("encrypted_share")),
        ("covered", "covered sensitivity", "share", itemgetter("coverage")),
        ("implementation", "at the cost of", "text", itemgetter("implementation")),
        ("crypto", "cryptography", "text", itemgetter("crypto")),
    ]
    return tabled("The methods side by side", columns, rows)


_ACCURACY: tuple[Column, ...] = (
    ("accuracy", "accuracy", "share", itemgetter("accuracy_mean")),
    ("worst", "worst client", "share", itemgetter("accuracy_min")),
    ("best", "best client", "share", itemgetter("accuracy_max")),
)


def _curves(rows: Sequence[Row]) -> Table:
    columns: list[Column] = [
        ("method", "method", "text", "name"),
        ("round", "round", "whole", itemgetter("round")),
        ("accuracy", "mean accuracy", "share", itemgetter("accuracy_mean")),
        *_ACCURACY[1:],
    ]
    return tabled("Accuracy by round", columns, [{**at, "name": row["name"]} for row in rows for at in row["rounds"]])


def _timeline(rows: Sequence[Row]) -> Table:
    unit, scale = time_unit(min(row["rounds"][-1]["seconds"] for row in rows))
    columns: list[Column] = [
        ("method", "method", "text", "name"),
        ("client", "client", "whole", itemgetter("client")),
        ("device", "device", "text", itemgetter("device")),
        *((step, f"{step}, {unit}", "number", partial(_scaled, step, scale)) for step in ALWAYS),
    ]
    clients = [{**each, "name": row["name"]} for row in rows for each in row["timeline"]]
    return tabled("Each client's time in the last round", columns, clients)


def _scaled(key: str, scale: float, row: Row) -> float:
    return float(scale * row[key])


def _bars(name: str, title: str, says: str, fields: Sequence[str], axis: str, tables: dict[str, Table]) -> Chart:
    """One bar a method, or several beside each other, each with its value behind it."""
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


def _accuracy_chart(table: Table, names: Sequence[str]) -> Chart:
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "title": "accuracy",
        "axis": {"format": ".1~%"},
        "scale": {"zero": False},
    }
    return Chart(
        "accuracy",
        "Accuracy by round",
        "A line for each method: the clients' mean accuracy by round. Methods that train the same models share a line.",
        "curves",
        plain(
            height=300,
            mark={"type": "line", "strokeWidth": 2, "point": {"size": 28, "filled": True}},
            encoding={
                "x": round_axis(table),
                "y": y,
                "color": colours("method", names),
                "strokeDash": {"field": "method", "type": "nominal", "legend": None, "scale": cycle(names, DASHES)},
                "tooltip": [
                    {"field": "method", "type": "nominal"},
                    {"field": "round", "type": "quantitative"},
                    {"field": "accuracy", "type": "quantitative", "format": ".1%"},
                ],
            },
        ),
        legend=series(names),
    )


def _cards(rows: Sequence[Row]) -> list[Card]:
    return [
        _card("Fastest", rows, "device_seconds", min, seconds),
        _card("Most accurate", rows, "accuracy_mean", max, percent),
        _card("Sends least", rows, "bytes_up", min, megabytes),
        _card("Covers most sensitivity", rows, "coverage", max, percent),
    ]


def _card(title: str, rows: Sequence[Row], key: str, best: Callable[..., float], write: Callable[[float], str]) -> Card:
    """The best value, and whose it is."""
    value = best(row[key] for row in rows)
    names = [row["name"] for row in rows if row[key] == value]
    return Card(title, write(value), names[0] if len(names) == 1 else f"{len(names)} methods alike")


def _findings(rows: Sequence[Row]) -> list[str]:
    """How the slowest and the fastest method that encrypts compare, and how times were charged."""
    encrypting = [row for row in rows if row["encrypted_share"] > 0]
    found = []
    if len(encrypting) > 1:
        slow, fast = (pick(encrypting, key=lambda row: row["device_seconds"]) for pick in (max, min))
        if fast["device_seconds"] > 0:
            times = slow["device_seconds"] / fast["device_seconds"]
            found.append(f"{fast['name']} is {times:.3g} times as fast as {slow['name']}.")
    found += [f"The same models, to the last bit: {', '.join(same)}." for same in _alike(rows)]
    charged = [row["name"] for row in rows if row["implementation"] != "ours"]
    if charged:
        found.append(f"At python-paillier's measured cost a ciphertext: {', '.join(charged)}.")
    calibrated = [row["name"] for row in rows if row["crypto"] == "calibrated"]
    if calibrated:
        found.append(f"Calibrated, nothing was really encrypted: {', '.join(calibrated)}.")
    return found


def _alike(rows: Sequence[Row]) -> list[list[str]]:
    """Methods whose final models are equal: their lines lie upon each other."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault(tuple(row["model_sha256"]), []).append(row["name"])
    return [names for names in groups.values() if len(names) > 1]


def _links(report: Mapping[str, Any], folder: Path, links: bool) -> list[tuple[str, str, str]]:
    found = []
    for row, path in zip(report["rows"], run_folders(report, folder).values(), strict=True):
        more = f"{seconds(row['device_seconds'])}, {percent(row['accuracy_mean'])} accurate"
        found.append((row["name"], f"{path.name}/report.html" if links else "", more))
    return found
