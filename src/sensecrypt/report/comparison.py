"""The page of a comparison: the methods side by side, with a link to the page of each run."""

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
from sensecrypt.report.methodbars import method_bars
from sensecrypt.report.protections import ATTACKED, attacked_section, device_section, device_table
from sensecrypt.report.tables import time_unit
from sensecrypt.report.timeline import ALWAYS
from sensecrypt.report.vega import DASHES, colours, cycle, plain, round_axis, series
from sensecrypt.report.words import count, megabytes, percent, seconds

FILE = "compare.json"
VERSION = 1

Row = Mapping[str, Any]


def read_comparison(folder: Path) -> dict[str, Any]:
    """Read compare.json."""
    path = folder / FILE
    try:
        report = json.loads(path.read_text())
        version, rows = report["version"], report["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(str(path), "is no file of a comparison", "run the comparison again") from None
    if version != VERSION:
        raise InvalidInput(str(path), f"is a comparison of version {version}", "use the version that made it")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and row.get("rounds") for row in rows):
        raise InvalidInput(str(path), "has no rows, or a row without rounds", "run the comparison again")
    return dict(report)


def run_folders(report: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """The folder of each method's run, by the method's name."""
    return {row["name"]: folder / Method(row["policy"], row["preset"], row["settings"]).slug for row in report["rows"]}


def comparison_page(report: Mapping[str, Any], folder: Path, *, links: bool = True) -> Page:
    """The page of compare.json; with `links` if the pages of its runs are files in its folder."""
    try:
        return _page(report, folder, links)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        problem = f"is no file of a comparison ({type(error).__name__}: {error})"
        raise InvalidInput(str(folder / FILE), problem, "run the comparison again") from error


def _page(report: Mapping[str, Any], folder: Path, links: bool) -> Page:
    rows = [{**row, "name": row.get("label", row["name"])} for row in report["rows"]]
    names = [row["name"] for row in rows]
    tables = {"methods": _methods(rows), "curves": _curves(rows), "timeline": _timeline(rows)}
    if len(kinds := list(dict.fromkeys(report["devices"]))) > 1:
        tables["devices"] = device_table(rows)
    chosen = Picker("Method", "method", [(name, name) for name in names], names[-1])
    accuracy = _accuracy_chart(tables["curves"], names)
    unit = time_unit(max(row["device_seconds"] for row in rows))[0]
    says = "One bar per method: device time of the whole training."
    time = method_bars("time", "Time of the training", says, ["time"], f"device time, {unit}", tables)
    says = "Two bars per method: what all clients send and receive."
    traffic = method_bars("traffic", "Communication of the training", says, ["up", "down"], "MB, all clients", tables)
    says = "Two bars per method: encrypted share of the parameters and of their sensitivity, mean of all rounds."
    shares = method_bars("shares", "Protection", says, ["encrypted", "covered"], "share", tables)
    attacked = [attacked_section(report, tables)] if "attacked" in report else []
    devices = [device_section(report, tables)] if "devices" in tables else []
    sections = [
        *attacked,
        *devices,
        Section("time", "Time", "Device time of the whole training, set-up included.", [time]),
        Section("accuracy", "Accuracy", "Mean of the clients after each round.", [accuracy]),
        Section(
            "exposure",
            "Communication and protection",
            "Traffic of all clients in the whole training; encrypted shares as the mean of all rounds.",
            [traffic, shares],
        ),
        Section(
            "last-round",
            "Last round",
            "The steps of each client, and its waiting for slower clients.",
            [timeline_chart(tables["timeline"], picker=chosen)],
        ),
    ]
    size = f"{count(report['clients'], 'client')}, {count(report['rounds'], 'round')}"
    fleet = f"devices: {', '.join(kinds)}; server of {report['server_cpus']:g} CPUs"
    return Page(
        title=f"{count(len(rows), 'method')} on {report['dataset']}",
        subtitle=f"scenario {report['scenario']}, {report['model']}, {size}; {fleet}",
        state="finished",
        status="finished",
        cards=_cards(rows),
        findings=[*report.get("findings", []), *_findings(rows)],
        sections=sections,
        tables=tables,
        command=report["command"],
        note="This measures the same comparison again.",
        links=_links(rows, report, folder, links),
    )


def _methods(rows: Sequence[Row]) -> Table:
    unit, scale = time_unit(max(row["device_seconds"] for row in rows))
    columns: list[Column] = [
        ("method", "method", "text", "name"),
        ("time", f"device time, {unit}", "number", lambda row: row["device_seconds"] * scale),
        ("waiting", "waiting for slower clients", "share", itemgetter("straggler_share")),
        ("up", "up, MB", "number", lambda row: row["bytes_up"] / 1e6),
        ("down", "down, MB", "number", lambda row: row["bytes_down"] / 1e6),
        *_ACCURACY,
        ("encrypted", "encrypted, mean", "share", itemgetter("encrypted_share")),
        ("covered", "covered sensitivity, mean", "share", itemgetter("coverage")),
        *(ATTACKED if all("found" in row for row in rows) else ()),
        ("implementation", "at the cost of", "text", itemgetter("implementation")),
        ("crypto", "cryptography", "text", itemgetter("crypto")),
    ]
    return tabled("The methods side by side", columns, rows)


_ACCURACY: tuple[Column, ...] = (
    ("accuracy", "accuracy after the last round", "share", itemgetter("accuracy_mean")),
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
        "One line per method: mean accuracy of the clients. Methods that train identical models share a line.",
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
    """The best value and the methods that reach it."""
    value = best(row[key] for row in rows)
    names = [row["name"] for row in rows if row[key] == value]
    return Card(title, write(value), names[0] if len(names) == 1 else f"{len(names)} methods")


def _findings(rows: Sequence[Row]) -> list[str]:
    """Slowest against fastest encryption, identical models, and how encryption was charged."""
    encrypting = [row for row in rows if row["encrypted_share"] > 0]
    found = []
    if len(encrypting) > 1:
        slow, fast = (pick(encrypting, key=lambda row: row["device_seconds"]) for pick in (max, min))
        if fast["device_seconds"] > 0:
            times = slow["device_seconds"] / fast["device_seconds"]
            found.append(f"{fast['name']} is {times:.3g} times as fast as {slow['name']}.")
    found += [f"Bit-identical models: {', '.join(same)}." for same in _alike(rows)]
    charged = [row["name"] for row in rows if row["implementation"] != "ours"]
    if charged:
        found.append(f"Charged at python-paillier's measured cost per ciphertext: {', '.join(charged)}.")
    calibrated = [row["name"] for row in rows if row["crypto"] == "calibrated"]
    if calibrated:
        found.append(f"Calibrated (charged, not really encrypted): {', '.join(calibrated)}.")
    return found


def _alike(rows: Sequence[Row]) -> list[list[str]]:
    """Groups of methods whose final models are equal."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault(tuple(row["model_sha256"]), []).append(row["name"])
    return [names for names in groups.values() if len(names) > 1]


def _links(rows: Sequence[Row], report: Mapping[str, Any], folder: Path, links: bool) -> list[tuple[str, str, str]]:
    found = []
    for row, path in zip(rows, run_folders(report, folder).values(), strict=True):
        more = f"device time {seconds(row['device_seconds'])}, accuracy {percent(row['accuracy_mean'])}"
        found.append((row["name"], f"{path.name}/report.html" if links else "", more))
    return found
