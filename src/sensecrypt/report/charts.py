"""The charts of a run's page, one per table: Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Sequence

from sensecrypt.report.figures import Chart, Picker, Spec, Table
from sensecrypt.report.tables import ALL_CLIENTS, column, distinct
from sensecrypt.report.timeline import STEPS
from sensecrypt.report.vega import (
    DASHES,
    SHAPES,
    colours,
    cycle,
    heat,
    height_of,
    ordinal,
    plain,
    round_axis,
    series,
    tip,
)
from sensecrypt.report.words import round_name

_DEVICE = ("device", "bandwidth")


def accuracy_chart(table: Table) -> Chart:
    """A line per cluster, with the range of its clients."""
    clusters = distinct(column(table, "cluster"))
    hue = colours("cluster", clusters)
    x = round_axis(table)
    dash = {"field": "cluster", "type": "nominal", "legend": None, "scale": cycle(clusters, DASHES)}
    y = {"type": "quantitative", "title": "accuracy", "axis": {"format": ".1~%"}, "scale": {"zero": False}}
    tooltip = [tip("cluster"), tip("round"), *(tip(name, ".1%") for name in ("mean", "worst", "best"))]
    single = len(distinct(column(table, "round"))) == 1
    band: Spec = {"type": "rule", "strokeWidth": 10, "opacity": 0.3} if single else {"type": "area", "opacity": 0.16}
    return Chart(
        "accuracy",
        "Accuracy of each cluster",
        "Lines: mean accuracy of each cluster's clients by round. Shades: from its worst to its best client.",
        "accuracy",
        plain(
            height=300,
            layer=[
                {
                    "mark": band,
                    "encoding": {"x": x, "y": {"field": "worst", **y}, "y2": {"field": "best"}, "color": hue},
                },
                {
                    "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 28, "filled": True}},
                    "encoding": {
                        "x": x,
                        "y": {"field": "mean", **y},
                        "color": hue,
                        "strokeDash": dash,
                        "tooltip": tooltip,
                    },
                },
            ],
        ),
        legend=series(clusters, "cluster"),
    )


def timeline_chart(table: Table, name: str = "timeline", picker: Picker | None = None) -> Chart:
    """A bar per client: its steps in a round, one after the other."""
    steps = [field.name for field in table.fields if field.name in STEPS]
    unit = next(field.title.rpartition(", ")[2] for field in table.fields if field.name == "train")
    rounds = distinct(column(table, "round")) if picker is None else []
    latest = rounds[-1] if rounds else 0
    chosen = picker or Picker("Round", "round", [(each, round_name(each)) for each in rounds], latest, slides=True)
    clients = sorted(distinct(column(table, "client")))
    names = _names(table, clients)
    by_step: Spec = {"field": "step", "type": "nominal", "legend": None}
    return Chart(
        name,
        "Steps of each client in a round",
        "One bar per client: the steps of a round in their order, timed on its device. Wait: for slower clients"
        + ("; server: for aggregator and key server." if "server" in steps else "."),
        name,
        plain(
            height=height_of(len(clients)),
            params=[{"name": "chosen", "value": chosen.start}],
            transform=[
                {"filter": f"datum.{chosen.field} == chosen"},
                {"fold": steps, "as": ["step", "time"]},
                {"calculate": f"indexof({steps!r}, datum.step)", "as": "place"},
                {"filter": "datum.time > 0"},
            ],
            mark={"type": "bar", "strokeWidth": 0.8, "height": {"band": 0.8}},
            encoding={
                "y": {
                    "field": "client",
                    "type": "ordinal",
                    "title": "client",
                    "axis": {
                        "ticks": False,
                        "domain": False,
                        "labelOverlap": True,
                        "labelExpr": f"{names!r}[indexof({clients!r}, datum.value)]",
                    },
                    "scale": {"domain": clients},
                },
                "x": {
                    "field": "time",
                    "type": "quantitative",
                    "title": f"device time, {unit}",
                    "axis": {"format": ",.4~r"},
                },
                "color": {**by_step, "scale": {"domain": steps, "range": [STEPS[step] for step in steps]}},
                "stroke": {**by_step, "scale": {"domain": steps, "range": [_edge(STEPS[step]) for step in steps]}},
                "order": {"field": "place", "type": "quantitative"},
                "tooltip": [
                    tip("client"),
                    *(tip(field.name, title=field.title) for field in table.fields if field.name in _DEVICE),
                    tip("step"),
                    tip("time", ".3~g", f"time, {unit}"),
                ],
            },
        ),
        legend=list({colour: (step, colour) for step, colour in STEPS.items() if step in steps}.values()),
        picker=chosen,
    )


def share_chart(table: Table, measure: str, title: str, says: str) -> Chart:
    """A cell for each client and round; a cross where the upload did not count."""
    clients = len(distinct(column(table, "client")))
    cell = {"x": {**ordinal("round"), "title": "round"}, "y": {**ordinal("client"), "title": "client"}}
    tooltip = [tip(name) for name in ("client", "cluster", "round")]
    figures = [
        tip("encrypted", ".1%"),
        tip("covered", ".1%", "covered sensitivity"),
        tip("decided", title="decided by"),
    ]
    return Chart(
        measure,
        title,
        says + (" A cross: the upload did not count." if any(column(table, "left_out")) else ""),
        "clients",
        plain(
            height=height_of(clients),
            layer=[
                {
                    "transform": [{"filter": f"isValid(datum.{measure})"}],
                    "mark": {"type": "rect", "stroke": "--surface", "strokeWidth": 0.5},
                    "encoding": {**cell, "color": heat(measure), "tooltip": tooltip + figures},
                },
                {
                    "transform": [{"filter": "datum.left_out != ''"}],
                    "mark": {"type": "text", "text": "\N{MULTIPLICATION SIGN}", "color": "--text", "fontSize": 12},
                    "encoding": {**cell, "tooltip": [*tooltip, tip("left_out", title="left out because")]},
                },
            ],
        ),
        ramp=("0 %", "100 %"),
    )


def traffic_chart() -> Chart:
    """Two bars per round."""
    return Chart(
        "traffic",
        "Communication of each round",
        "Two bars per round: megabytes from all clients up to the servers, and down to all clients.",
        "traffic",
        plain(
            height=240,
            transform=[{"fold": ["up", "down"], "as": ["way", "megabytes"]}],
            mark={"type": "bar"},
            encoding={
                "x": {**ordinal("round"), "title": "round", "sort": None},
                "xOffset": {"field": "way", "type": "nominal", "sort": ["up", "down"]},
                "y": {"field": "megabytes", "type": "quantitative", "title": "MB, all clients"},
                "color": colours("way", ["up", "down"]),
                "tooltip": [tip("round"), tip("way"), tip("megabytes", ",.3~f", "MB")],
            },
        ),
        legend=series(["up", "down"]),
    )


def map_chart(table: Table) -> Chart:
    """A point per client; clients with similar data are close together."""
    members: dict[int, list[int]] = {}
    for client, cluster in zip(column(table, "client"), column(table, "cluster"), strict=True):
        members.setdefault(cluster, []).append(client)
    clusters = sorted(members)
    axis = {"type": "quantitative", "scale": {"zero": False, "padding": 24}, "axis": {"labels": False, "ticks": False}}
    legend = [
        (f"{text}: {_ranges(members[each])}", hue)
        for each, (text, hue) in zip(clusters, series(clusters, "cluster"), strict=True)
    ]
    return Chart(
        "map",
        "The clients on a map",
        "One mark per client, coloured and shaped by cluster; clients with similar data are close together.",
        "map",
        plain(
            height=300,
            mark={
                "type": "point",
                "filled": True,
                "size": 130,
                "opacity": 0.85,
                "stroke": "--surface",
                "strokeWidth": 1,
            },
            encoding={
                "x": {"field": "x", "title": "first component", **axis},
                "y": {"field": "y", "title": "second component", **axis},
                "color": colours("cluster", clusters),
                "shape": {"field": "cluster", "type": "nominal", "legend": None, "scale": cycle(clusters, SHAPES)},
                "tooltip": [tip("client"), tip("cluster")],
            },
        ),
        legend=legend,
    )


def layer_chart(table: Table) -> Chart:
    """A cell for each layer and round, of one client or of all."""
    layers = distinct(column(table, "layer"))
    who = distinct(column(table, "client"))
    order = [ALL_CLIENTS, *sorted((each for each in who if each != ALL_CLIENTS), key=lambda each: int(each.split()[1]))]
    return Chart(
        "layers",
        "What is encrypted of each layer",
        "A cell for each layer and round: its colour shows the encrypted share of the layer's parameters.",
        "layers",
        plain(
            height=height_of(len(layers), 26),
            params=[{"name": "chosen", "value": ALL_CLIENTS}],
            transform=[{"filter": "datum.client == chosen"}],
            mark={"type": "rect", "stroke": "--surface", "strokeWidth": 0.5},
            encoding={
                "x": {**ordinal("round"), "title": "round"},
                "y": {**ordinal("layer"), "title": None, "sort": layers},
                "color": heat("encrypted"),
                "tooltip": [tip("layer"), tip("round"), tip("encrypted", ".1%"), tip("size", ",", "parameters")],
            },
        ),
        ramp=("0 %", "100 %"),
        picker=Picker("Clients", "client", [(each, each) for each in order], ALL_CLIENTS),
    )


def attack_chart(table: Table) -> Chart:
    """A bar per attack, with the prior (guessing) for reference."""
    files = distinct(column(table, "file"))
    return Chart(
        "attacks",
        "Labels that attacks found",
        "One bar per attack: the share of the client's labels that it found. Prior: guessing without an upload.",
        "attacks",
        plain(
            height=height_of(len(distinct(column(table, "adversary"))), 24 if len(files) == 1 else 14 * len(files)),
            mark={"type": "bar"},
            encoding={
                "y": {"field": "adversary", "type": "nominal", "title": None, "sort": None},
                "yOffset": {"field": "file", "type": "nominal", "sort": files},
                "x": {
                    "field": "irec",
                    "type": "quantitative",
                    "title": "labels found",
                    "axis": {"format": ".0%"},
                    "scale": {"domain": [0, 1]},
                },
                "color": colours("file", files),
                "tooltip": [tip("file"), tip("adversary"), tip("role"), tip("irec", ".1%", "labels found")],
            },
        ),
        legend=series(files),
    )


def _names(table: Table, clients: Sequence[int]) -> list[str]:
    """Each client with its device; the number alone if its device changes."""
    devices: dict[int, set[str]] = {}
    for client, device in zip(column(table, "client"), column(table, "device"), strict=True):
        devices.setdefault(client, set()).add(device)
    return [" ".join([str(each), *(devices[each] if len(devices[each]) == 1 else ())]) for each in clients]


def _edge(colour: str) -> str:
    """The outline of a step: the colour of the page, except for waiting, whose fill is too pale without a line."""
    return "--wait-line" if colour == "--wait" else "--surface"


def _ranges(clients: Sequence[int], most: int = 6) -> str:
    """Client numbers as ranges, such as `0 to 4, 7`; their count if there are more than `most` ranges."""
    parts: list[list[int]] = []
    for client in sorted(clients):
        if parts and client == parts[-1][-1] + 1:
            parts[-1].append(client)
        else:
            parts.append([client])
    if len(parts) > most:
        return f"{len(clients)} clients"
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)
